import { html, nothing, type TemplateResult } from 'lit';
import { customElement, state } from 'lit/decorators.js';
import { getJson } from '../api/client';
import type { ServerFigures, WorkerFigures } from '../api/types';
import { Polling } from '../history-view/polling';
import { LightElement } from '../light/light-element';
import { bytes, words } from './figures';

/** The server as it is now: its queue, slots, workers, memory and crashes. */
@customElement('server-view')
export class ServerView extends LightElement {
  @state() private figures: ServerFigures | null = null;
  private readonly polling = new Polling(this, async () => {
    this.figures = await getJson<ServerFigures>('playground/server.json');
  });

  override render(): TemplateResult {
    const { figures } = this;
    return html`<section class="panel" aria-labelledby="server-title">
      <h2 id="server-title">Server</h2>
      ${this.polling.problem ? html`<p class="problem" role="alert">${this.polling.problem}</p>` : nothing}
      ${figures ? this.all(figures) : html`<p class="quiet" role="status">Loading</p>`}
    </section>`;
  }

  private all(figures: ServerFigures): TemplateResult {
    const { key } = figures;
    return html`
      <p>Status <strong class="state">${figures.status}</strong>${figures.records ? html`, records: ${figures.records}` : nothing}</p>
      ${key.needed ? html`<p>Your key ${key.name} (owner ${key.owner}) opens ${key.scopes.join(', ')}.</p>` : nothing}
      <div class="scroll" tabindex="0" role="region" aria-label="Workers"><table>
        <caption>Workers</caption>
        <thead><tr>
          <th scope="col">for</th><th scope="col">state</th><th scope="col">slots in use</th>
          <th scope="col">in the queue</th><th scope="col">crashes</th><th scope="col">since</th>
        </tr></thead>
        <tbody>${figures.workers.map((each) => worker(each, figures.queue.most))}</tbody>
      </table></div>
      ${this.numbers('Model', Object.entries(figures.model).map(([name, value]) => [words(name), name.includes('bytes') ? bytes(value) : value.toLocaleString('en')]))}
      ${this.numbers('Versions', Object.entries(figures.versions))}
    `;
  }

  private numbers(title: string, rows: [string, string][]): TemplateResult | typeof nothing {
    if (rows.length === 0) return nothing;
    return html`<h3>${title}</h3>
      <dl class="figures">${rows.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
  }
}

function worker(figures: WorkerFigures, most: number | null): TemplateResult {
  const { setup, slots, running } = figures;
  return html`<tr>
    <th scope="row">${figures.kind === 'train' ? 'trainings' : 'predictions'}</th>
    <td>${figures.state}${setup?.error ? html`<p class="problem">${setup.error.slice(0, 500)}</p>` : nothing}</td>
    <td>${running} of ${slots} <meter min="0" max=${slots || 1} .value=${running} aria-label="slots in use"></meter></td>
    <td>${figures.waiting}${most === null ? nothing : ` of ${most.toLocaleString('en')}`}</td>
    <td>${figures.crashes}${figures.last_crash ? html` <span class="quiet">${figures.last_crash}</span>` : nothing}</td>
    <td>${setup?.completed_at ? new Date(setup.completed_at).toLocaleTimeString() : ''}</td>
  </tr>`;
}
