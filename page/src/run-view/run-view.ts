import { html, nothing, type PropertyValues, type TemplateResult } from 'lit';
import { customElement, property, query, state } from 'lit/decorators.js';
import { keyed } from 'lit/directives/keyed.js';
import type { ExampleRequest, Kind, Values } from '../api/types';
import type { ChatField } from '../chat-field/chat-field';
import type { ExamplesEditor } from '../examples-editor/examples-editor';
import { problemsByRow } from '../examples-editor/problems';
import type { ValueChange } from '../field-frame/field-element';
import type { InputForm } from '../input-form/input-form';
import { defaultsOf, secretsOf, type Field } from '../inputs/fields';
import { LightElement } from '../light/light-element';
import { wholeText } from '../output-value/shapes';
import { unstarred } from '../request-json/shortened';
import { faultOf, plainProblem } from '../runs/messages';
import { Run } from '../runs/run';
import { Watching } from '../runs/watching';
import '../copy-as/copy-as';
import '../request-json/request-json';
import '../result-panel/result-panel';

/** The form of a request, and what comes of it. */
@customElement('run-view')
export class RunView extends LightElement {
  @property() kind: Kind = 'predictions';
  @property({ attribute: false }) fields: Field[] = [];
  @property({ attribute: false }) examples: ExampleRequest[] = [];
  @property({ type: Boolean }) joins = false;
  @state() values: Values = {};
  @state() private unsendable: Record<string, string> = {};
  @state() private isJson = false;
  @query('input-form') private form!: InputForm | null;
  private readonly watching = new Watching(this);
  private isTouched = false;
  private loads = 0;

  override connectedCallback(): void {
    super.connectedCallback();
    document.addEventListener('keydown', this.press);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    document.removeEventListener('keydown', this.press);
  }

  override willUpdate(changed: PropertyValues<this>): void {
    if (changed.has('fields') && !this.isTouched) this.values = defaultsOf(this.fields);
  }

  /** Put a request into the form. */
  load(values: Values): void {
    this.isTouched = true;
    this.unsendable = {};
    this.values = unstarred(values, secretsOf(this.fields));
    this.loads += 1; // editors are made anew, so that nothing half typed stays in them
    this.isJson = false;
    this.watching.watch(null);
  }

  /** Put single inputs into the form, and leave the others. */
  set(values: Values): void {
    this.load({ ...this.values, ...values });
  }

  override render(): TemplateResult {
    const { run } = this.watching;
    return html`
      <div class="columns run-columns">
        <section class="panel request" aria-label="Request">
          <div class="request-inputs">${this.exampleButtons()} ${this.request()}</div>
          ${this.buttons(run)}
        </section>
        <section class="panel result" aria-label="Result">
          <h2>${this.kind === 'trainings' ? 'Result' : 'Answer'}</h2>
          ${run
            ? html`<result-panel .run=${run} .version=${this.watching.version} .joins=${this.joins}
                .replies=${this.replies} .saidAt=${this.saidAt(run)} .doubtful=${this.doubtful(run)}
                @run-again=${this.start} @show-doubtful=${() => this.examplesEditor?.showSuspect()}
                @reply=${() => this.goOn(run)}></result-panel>`
            : this.empty()}
        </section>
      </div>
    `;
  }

  private empty(): TemplateResult {
    return html`<div class="empty">
      <p>Nothing has run yet.
        ${this.examples.length > 0 ? 'Choose an example, or fill in the form. Then' : 'Fill in the form. Then'}
        press <strong>Run</strong> or <kbd>Ctrl</kbd> <kbd>Enter</kbd>. <kbd>Esc</kbd> cancels.
      </p>
    </div>`;
  }

  private exampleButtons(): TemplateResult | typeof nothing {
    if (this.examples.length === 0) return nothing;
    return html`<div class="row examples" role="group" aria-label="Examples of requests">
      <span class="quiet">Try</span>
      ${this.examples.map(
        (each) => html`<button type="button" class="small" title=${each.description ?? ''}
          @click=${() => this.load({ ...defaultsOf(this.fields), ...each.input })}>${each.name}</button>`,
      )}
    </div>`;
  }

  private request(): TemplateResult {
    const secrets = secretsOf(this.fields);
    return html`
      ${this.isJson
        ? html`<request-json .values=${this.values} .secrets=${secrets} .textId=${`${this.idPrefix}request-json`}
            @json-problem=${this.note}
            @values-change=${(event: CustomEvent<Values>) => this.take(event.detail)}></request-json>
            <copy-as .kind=${this.kind} .values=${this.values} .secrets=${secrets}></copy-as>`
        : html`<form @submit=${this.submit} novalidate>
            ${keyed(this.loads, html`<input-form .fields=${this.fields} .values=${this.values}
              .problems=${this.problems} @value-change=${this.change} @teach-again=${this.teachAgain}></input-form>`)}
          </form>`}
      ${this.fields.length === 0 ? html`<p class="quiet">This predictor has no inputs.</p>` : nothing}
    `;
  }

  private buttons(run: Run | null): TemplateResult {
    const isRunning = run !== null && !run.isOver;
    return html`<div class="row actions">
      <button type="button" class="primary" ?disabled=${isRunning} @click=${this.start}>Run</button>
      <button type="button" ?disabled=${!isRunning} @click=${this.cancel}>Cancel</button>
      <span class="row request-form" role="group" aria-label="Form or JSON">
        <button type="button" class="small" aria-pressed=${!this.isJson} @click=${() => this.turn(false)}>Form</button>
        <button type="button" class="small" aria-pressed=${this.isJson} @click=${() => this.turn(true)}>JSON</button>
        <button type="button" class="small" @click=${() => this.load(defaultsOf(this.fields))}>Start over</button>
      </span>
    </div>`;
  }

  /** Whether the answer is a message of a chat that can go on. */
  private get replies(): boolean {
    return this.joins && this.fields.some((each) => each.editor === 'chat');
  }

  /** Put the answer into the chat, and a message to be typed after it. */
  private goOn(run: Run): void {
    const { prompt, messages } = run.input;
    const asked = Array.isArray(messages) && messages.length > 0 ? messages : [{ role: 'user', content: prompt ?? '' }];
    const answer = wholeText(run.output ?? '');
    this.set({ prompt: '', messages: [...asked, { role: 'assistant', content: answer }, { role: 'user', content: '' }] });
    void this.updateComplete.then(() => this.querySelector<ChatField>('chat-field')?.focusLast());
  }

  private get idPrefix(): string {
    return this.kind === 'trainings' ? 'train-' : '';
  }

  /** Show the form or JSON; what was typed in the other and is no value stays behind. */
  private turn(isJson: boolean): void {
    this.isJson = isJson;
    this.unsendable = {};
  }

  private note({ detail }: CustomEvent<string>): void {
    this.isTouched = true;
    this.unsendable = detail ? { '': detail } : {};
  }

  private get problems(): Record<string, string> {
    const { run } = this.watching;
    const said: Record<string, string> = {};
    for (const { field, message } of run?.refused?.problems ?? []) {
      const plain = plainProblem(message, this.fields.find((each) => each.name === field)?.choices ?? []);
      if (field) said[field] = said[field] ? `${said[field]}; ${plain}` : plain;
    }
    const fault = run?.phase === 'failed' && run.error ? faultOf(run.error, run.input, this.fields.map((each) => each.name)) : null;
    if (fault?.field && this.fields.some((each) => each.name === fault.field)) said[fault.field] = fault.message;
    const isSaidOfRows = said.examples !== undefined && problemsByRow(run?.error ?? '').size > 0;
    if (isSaidOfRows) said.examples = 'The rows that are marked cannot be used.';
    return { ...said, ...this.unsendable };
  }

  /** The inputs at which the form says why this run failed; as JSON there is no such place. */
  private saidAt(run: Run): string[] {
    return this.isJson || run.error === null ? [] : Object.keys(this.problems).filter((each) => each in this.problems && each !== '');
  }

  private get examplesEditor(): ExamplesEditor | null {
    return this.querySelector<ExamplesEditor>('examples-editor');
  }

  /** How many labels of the examples this run's report calls into question, and are still as they were. */
  private doubtful(run: Run): number {
    return run.isOver && run.report ? (this.examplesEditor?.suspects.length ?? 0) : 0;
  }

  private change({ detail }: CustomEvent<ValueChange>): void {
    const { [detail.name]: _, ...others } = this.unsendable;
    this.unsendable = detail.problem ? { ...others, [detail.name]: detail.problem } : others;
    const values = { ...this.values };
    if (detail.value === undefined) delete values[detail.name];
    else values[detail.name] = detail.value;
    this.take(values);
  }

  private take(values: Values): void {
    this.isTouched = true;
    this.values = values;
  }

  private submit(event: Event): void {
    event.preventDefault();
  }

  private readonly start = (): void => {
    if (this.watching.run && !this.watching.run.isOver) return;
    if (Object.keys(this.unsendable).length > 0) return this.focusProblem();
    const run = new Run(this.kind, this.values);
    this.watching.watch(run);
    void run.start().then(() => this.afterwards(run));
    void this.updateComplete.then(() => this.showResult());
  };

  /** Bring the answer into sight, where the form has pushed it out. */
  private showResult(): void {
    const result = this.querySelector('.result');
    const top = result?.getBoundingClientRect().top ?? 0;
    if (top < 0 || top > innerHeight * 0.6) result?.scrollIntoView({ block: 'start' });
  }

  private readonly teachAgain = (): void => {
    void this.updateComplete.then(this.start);
  };

  private focusProblem(): void {
    if (this.isJson) this.querySelector<HTMLElement>('request-json textarea')?.focus();
    else void this.form?.focusProblem();
  }

  private afterwards(run: Run): void {
    const editor = this.examplesEditor;
    if (editor) {
      editor.rowProblems = problemsByRow(run.error ?? '');
      if (run.report) editor.warnings = run.report.warnings;
    }
    this.requestUpdate(); // which labels are doubtful is known now
    if (this.saidAt(run).length > 0) this.focusProblem();
    if (this.joins) void run.askUntaught();
  }

  private readonly cancel = (): void => {
    void this.watching.run?.cancel().catch(() => undefined); // a server that is gone says so itself
  };

  private readonly press = (event: KeyboardEvent): void => {
    if (this.hidden || event.defaultPrevented || document.querySelector('dialog[open]')) return;
    if (event.key === 'Escape' && this.watching.run && !this.watching.run.isOver) this.cancel();
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) this.start();
  };
}
