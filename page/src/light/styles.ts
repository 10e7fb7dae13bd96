/** Sets styles by their properties: a `style` attribute is refused by the page's security policy. */
import { noChange } from 'lit';
import { Directive, directive, type ElementPart } from 'lit/directive.js';

class Styles extends Directive {
  override render(_styles: Record<string, string>): typeof noChange {
    return noChange;
  }

  override update(part: ElementPart, [styles]: [Record<string, string>]): typeof noChange {
    const { style } = part.element as HTMLElement;
    for (const [name, value] of Object.entries(styles)) style.setProperty(name, value);
    return noChange;
  }
}

/** Use as `<div ${styles({ height: '20px' })}>`. */
export const styles = directive(Styles);
