import { html, nothing, type PropertyValues, type TemplateResult } from 'lit';
import { customElement, query, state } from 'lit/decorators.js';
import type { Values } from '../api/types';
import { connection } from '../connection/connection';
import { LightElement } from '../light/light-element';
import type { RunView } from '../run-view/run-view';
import { load, type Loaded, type Model } from './model';
import { hashOf, routeOf, type Route, type ViewName } from './route';
import { chosenTheme, nextTheme, showTheme, type Theme } from './theme';
import './app-shell.css';

const TITLES: Record<ViewName, string> = {
  predict: 'Predict',
  train: 'Train',
  history: 'History',
  'self-test': 'Self-test',
  server: 'Server',
};

const NO_FIELDS: Model['fields'] = { predictions: [], trainings: [] };
const DRAGS = ['dragover', 'drop'] as const;

/** The page: its views, and what they say to each other. */
@customElement('app-shell')
export class AppShell extends LightElement {
  @state() private route: Route = routeOf(location.hash);
  @state() private loaded: Loaded = { state: 'starting', logs: '' };
  @state() private theme: Theme = chosenTheme();
  @state() private compared: string | null = null;
  @query('#predict run-view') private predict!: RunView | null;
  @query('#train run-view') private train!: RunView | null;
  @query('main') private main!: HTMLElement | null;

  override connectedCallback(): void {
    super.connectedCallback();
    showTheme(this.theme);
    addEventListener('hashchange', this.go);
    for (const name of DRAGS) addEventListener(name, keepPage);
    connection.addEventListener('up', this.reload);
    void this.reload();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    removeEventListener('hashchange', this.go);
    for (const name of DRAGS) removeEventListener(name, keepPage);
    connection.removeEventListener('up', this.reload);
  }

  override updated(changed: PropertyValues): void {
    if (changed.has('route')) document.title = `${TITLES[this.route.view]} – Playground`;
  }

  override render(): TemplateResult {
    return html`
      <a class="skip" href="#main" @click=${this.skip}>Skip to the content</a>
      <header>
        <h1>Playground</h1>
        <nav aria-label="Views">
          ${this.views.map(
            (each) => html`<a href="#/${each}" aria-current=${each === this.route.view ? 'page' : nothing}>${TITLES[each]}</a>`,
          )}
        </nav>
        <button type="button" class="small theme" aria-label="Colours: ${this.theme}" title="Colours: ${this.theme}"
          @click=${() => (this.theme = nextTheme(this.theme))}>
          <span class="theme-sign ${this.theme}" aria-hidden="true"></span><span class="theme-name">${this.theme}</span>
        </button>
      </header>
      <server-banner></server-banner>
      <main id="main" tabindex="-1" @use-adapter=${this.useAdapter} @compare-adapter=${this.compare}
        @load-request=${this.loadRequest}>
        ${this.loaded.state === 'ready' ? this.runViews(this.loaded.model) : this.notReady(this.loaded)}
        ${this.otherView()}
      </main>
      <key-dialog></key-dialog>
    `;
  }

  private get model(): Model | null {
    return this.loaded.state === 'ready' ? this.loaded.model : null;
  }

  private get views(): ViewName[] {
    const all = Object.keys(TITLES) as ViewName[];
    return all.filter((each) => each !== 'train' || (this.model?.trains ?? false));
  }

  /** Both forms stay in the page: what is typed in one is there after a look at another view. */
  private runViews(model: Model): TemplateResult {
    const of = (kind: 'predict' | 'train') => model.examples.filter((each) => each.kind === kind);
    return html`
      <div id="predict" ?hidden=${this.route.view !== 'predict'}>
        <run-view kind="predictions" .fields=${model.fields.predictions} .examples=${of('predict')}
          .joins=${model.joins} ?hidden=${this.route.view !== 'predict'}></run-view>
      </div>
      ${model.trains
        ? html`<div id="train" ?hidden=${this.route.view !== 'train'}>
            <run-view kind="trainings" .fields=${model.fields.trainings} .examples=${of('train')}
              ?hidden=${this.route.view !== 'train'}></run-view>
          </div>`
        : nothing}
    `;
  }

  private notReady(loaded: Exclude<Loaded, { state: 'ready' }>): TemplateResult | typeof nothing {
    if (this.route.view !== 'predict' && this.route.view !== 'train') return nothing;
    const words = {
      starting: 'The model is starting',
      failed: 'The model could not be set up',
      closed: 'The server says no',
    };
    return html`<section class="panel empty" role="status">
      <h2>${words[loaded.state]}</h2>
      ${loaded.state === 'failed' ? html`<p>See <a href="#/self-test">Self-test</a> and the logs of its setup:</p>` : nothing}
      ${loaded.logs ? html`<pre class="text" tabindex="0">${loaded.logs.slice(-50_000)}</pre>` : nothing}
      ${loaded.state === 'closed' ? html`<button type="button" @click=${this.reload}>Try again</button>` : nothing}
    </section>`;
  }

  private otherView(): TemplateResult | typeof nothing {
    switch (this.route.view) {
      case 'history':
        return html`<history-view .listed=${this.route.listed} .runId=${this.route.id}
          .compared=${this.compared} .inputs=${this.predict?.values ?? {}}
          .fields=${this.model?.fields ?? NO_FIELDS}></history-view>`;
      case 'self-test':
        return html`<selftest-view></selftest-view>`;
      case 'server':
        return html`<server-view></server-view>`;
      default:
        return nothing;
    }
  }

  private readonly go = (): void => {
    this.route = routeOf(location.hash);
  };

  private skip(event: Event): void {
    event.preventDefault(); // the fragment is the view's
    this.main?.focus();
  }

  private readonly reload = async (): Promise<void> => {
    for await (const loaded of load()) {
      if (loaded.state === 'ready' || this.model === null) this.loaded = loaded;
    }
  };

  private async useAdapter({ detail }: CustomEvent<string>): Promise<void> {
    location.hash = '#/predict';
    await this.updateComplete;
    const { examples: _, examples_file: __, weights: ___, ...others } = this.predict?.values ?? {};
    this.predict?.load({ ...others, adapter: detail });
  }

  private compare({ detail }: CustomEvent<string>): void {
    this.compared = detail;
    location.hash = hashOf('adapters');
  }

  private async loadRequest({ detail }: CustomEvent<{ kind: string; input: Values }>): Promise<void> {
    const isTraining = detail.kind === 'trainings';
    location.hash = isTraining ? '#/train' : '#/predict';
    await this.updateComplete;
    (isTraining ? this.train : this.predict)?.load(detail.input);
  }
}

/** Refuse a file that misses its place: the browser would open it, and what is typed would be gone. */
function keepPage(event: DragEvent): void {
  if (event.dataTransfer?.types.includes('Files')) event.preventDefault();
}
