import { html, nothing, type TemplateResult } from 'lit';
import { customElement, state } from 'lit/decorators.js';
import { call, getJson } from '../api/client';
import type { ServerFigures, WorkerFigures } from '../api/types';
import { age } from '../gist/age';
import { Polling } from '../history-view/polling';
import { LightElement } from '../light/light-element';
import { styles } from '../light/styles';
import { bytes, words } from './figures';
import { sixOf, type Figure } from './operator';
import { samplesOf, type Sample } from './samples';
import '../gist/gist.css';
import './server-view.css';

const WORDS: Record<string, string> = {
  READY: 'Ready',
  BUSY: 'Ready, with all slots in use',
  STARTING: 'Starting',
  SETUP_FAILED: 'The setup failed',
  DEFUNCT: 'The model process is gone',
  UNHEALTHY: 'The model says that it is not healthy',
};

const MOST_FAULT = 500;

/** The server as it is now: six numbers first, all others folded. */
@customElement('server-view')
export class ServerView extends LightElement {
  @state() private figures: ServerFigures | null = null;
  private samples: Sample[] = [];
  /** Why model processes are out, where there are several. */
  private faults: string[] = [];
  private readonly polling = new Polling(this, async () => {
    const [figures, samples] = await Promise.all([getJson<ServerFigures>('playground/server.json'), samplesNow()]);
    this.faults = figures.workers.some((each) => each.worker) ? await faultsNow() : [];
    this.samples = samples;
    this.figures = figures;
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
    const { key, status } = figures;
    const several = figures.workers.filter(({ worker, kind }) => worker && worker !== kind);
    const out = Math.min(several.length, this.faults.length);
    return html`
      <p class="server-status"><span class="state ${status === 'READY' || status === 'BUSY' ? 'succeeded' : 'warned'}">${WORDS[status] ?? status}</span>
        ${key.needed ? html`<span class="quiet">Your key ${key.name} (owner ${key.owner}) opens ${key.scopes.join(', ')}.</span>` : nothing}</p>
      <dl class="six">${sixOf(figures, this.samples).map(figure)}</dl>
      ${figures.workers.map((each) => (each.setup?.error && !each.worker ? html`<p class="problem pre">${each.setup.error.slice(0, MOST_FAULT)}</p>` : nothing))}
      <details class="workers" ?open=${this.faults.length > 0}>
        <summary>Workers ${several.length > 0 ? html`<span class=${out > 0 ? 'state warned' : 'quiet'}>${several.length - out} of ${several.length} serve</span>` : nothing}</summary>
        ${this.faults.map((each) => html`<p class="problem pre">${each.slice(0, MOST_FAULT)}</p>`)}
        <div class="scroll" tabindex="0" role="region" aria-label="Workers"><table>
          <thead><tr>
            ${several.length > 0 ? html`<th scope="col">name</th>` : nothing}<th scope="col">for</th><th scope="col">state</th><th scope="col">slots in use</th>
            <th scope="col">in the queue</th><th scope="col">crashes</th><th scope="col">since</th>
          </tr></thead>
          <tbody>${figures.workers.map((each) => worker(each, figures.queue.most, several.length > 0))}</tbody>
        </table></div>
      </details>
      ${this.numbers('Model', Object.entries(figures.model).map(([name, value]) => [words(name), name.includes('bytes') ? bytes(value) : value.toLocaleString('en')]))}
      ${this.numbers('Versions', Object.entries(figures.versions))}
    `;
  }

  private numbers(title: string, rows: [string, string][]): TemplateResult | typeof nothing {
    if (rows.length === 0) return nothing;
    return html`<details><summary>${title}</summary>
      <dl class="figures">${rows.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
    </details>`;
  }
}

function figure({ name, value, detail, share, isOdd }: Figure): TemplateResult {
  return html`<div class="figure ${isOdd ? 'odd' : ''}">
    <dt>${name}</dt>
    <dd><strong>${value}</strong>
      ${share === null ? nothing : html`<span class="share" aria-hidden="true"><span ${styles({ width: `${Math.min(1, share) * 100}%` })}></span></span>`}
      <span class="quiet">${detail}</span></dd>
  </div>`;
}

/** Return the samples of `/metrics`; none where the server does not give them. */
async function samplesNow(): Promise<Sample[]> {
  const answer = await call('metrics');
  return answer.ok ? samplesOf(await answer.text()) : [];
}

/** Return a sentence for each of several model processes that does not serve as it should. */
async function faultsNow(): Promise<string[]> {
  const { degraded } = (await (await call('readyz')).json()) as { degraded?: string[] };
  return degraded ?? [];
}

function worker(figures: WorkerFigures, most: number | null, isNamed: boolean): TemplateResult {
  const { setup, slots, running, device } = figures;
  return html`<tr>
    ${isNamed ? html`<th scope="row">${figures.worker}${device ? html` <span class="quiet">on device ${device}</span>` : nothing}</th>` : nothing}
    <th scope="row">${figures.kind === 'train' ? 'trainings' : 'predictions'}</th>
    <td><span class="state ${figures.state === 'ready' ? 'succeeded' : 'warned'}">${figures.state}</span></td>
    <td>${running} of ${slots}</td>
    <td>${figures.waiting}${most === null ? nothing : ` of ${most.toLocaleString('en')}`}</td>
    <td>${figures.crashes}${figures.last_crash ? html` <span class="quiet">${figures.last_crash}</span>` : nothing}</td>
    <td>${age(setup?.completed_at)}</td>
  </tr>`;
}
