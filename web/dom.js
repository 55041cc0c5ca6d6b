// Making elements. Text goes in as text; nothing here takes markup or style strings, so the page
// needs neither under its content policy.

// el('button', {class: 'plain', onclick: f, 'aria-label': 'x'}, 'text', child, null)
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export function button(label, onclick, attributes = {}) {
  return el('button', {type: 'button', class: 'plain', onclick, ...attributes}, label);
}

export const byId = (id) => document.getElementById(id);

// Said once by screen readers, without moving the focus.
export function announce(text) {
  byId('status').textContent = text;
}

// At most one call per `ms`; the last one always happens.
export function throttled(ms, call) {
  let timer = 0;
  let last = -Infinity;
  return () => {
    if (timer) return;
    timer = setTimeout(() => {
      timer = 0;
      last = performance.now();
      call();
    }, Math.max(0, last + ms - performance.now()));
  };
}

export const prefersReducedMotion = () => matchMedia('(prefers-reduced-motion: reduce)').matches;
export const isTouch = () => matchMedia('(pointer: coarse)').matches;

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Plain http on another machine has no clipboard API; a selected field still copies.
    const field = el('textarea', {class: 'spoken'});
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand('copy');
    field.remove();
  }
  announce('Copied');
}

export function download(name, blob) {
  const link = el('a', {href: URL.createObjectURL(blob), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
