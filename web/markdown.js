// Text of a model to elements. It is hostile until shown otherwise: markup in it is shown as text, what
// marked makes of the rest passes DOMPurify's allow-list. DOMPurify holds the only Trusted Types policy;
// it hands over elements, never strings.

import './marked.umd.min.js';
import './purify.min.js';
import {button, copyText, el} from './dom.js';
import {whole} from './format.js';

const {marked, DOMPurify} = globalThis;

// What would hold up the page is shown as it is: the parser takes the square of the marks of a
// paragraph, and worse of the depth of a list.
const kLongestParsed = 256 * 1024;
const kMostMarks = 1000;
const kDeepList = /^\s{64,}(?:[-+*]|\d+[.)])\s/mu;
const kTableRows = 100;

const kAllowed = {
  ALLOWED_TAGS: [
    'a', 'blockquote', 'br', 'code', 'del', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'li', 'ol',
    'p', 'pre', 'strong', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul',
  ],
  ALLOWED_ATTR: ['href', 'title', 'start', 'align', 'class'],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/iu,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

const escaped = (text) => text
    .replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

const renderer = {
  html: (html) => (/^<br\s*\/?>$/iu.test(html.trim()) ? '<br>' : escaped(html)),
  // An image would tell another server that it was read.
  image: (href, title, text) => `<a href="${escaped(href ?? '')}">image: ${escaped(text || href || '')}</a>`,
  checkbox: (checked) => (checked ? '☑ ' : '☐ '),
};

marked.use({renderer, gfm: true, breaks: true, mangle: false, headerIds: false});

// A fragment ready to be inserted.
export function render(text) {
  if (isTooMuch(text)) return asWritten(text);
  let html;
  try {
    html = marked.parse(text);
  } catch {
    return asWritten(text);  // nested deeper than the parser can follow
  }
  const fragment = DOMPurify.sanitize(html, kAllowed);
  for (const link of fragment.querySelectorAll('a')) finishLink(link);
  for (const code of fragment.querySelectorAll('pre')) finishCode(code);
  for (const table of fragment.querySelectorAll('table')) finishTable(table);
  // Only the language of a code block keeps its class: names of the page's own are not for it.
  for (const other of fragment.querySelectorAll('[class]:not(.code, .code *, .table, .as-written)')) {
    other.removeAttribute('class');
  }
  return fragment;
}

// Cuts text that still grows before its open paragraph: what stands before parses the same for good.
export function closedLength(text) {
  let closed = 0;
  let fence = null;
  let at = 0;
  for (const line of text.split('\n')) {
    const mark = /^ {0,3}(`{3,}|~{3,})/u.exec(line)?.[1];
    if (fence === null && mark) fence = mark;
    else if (fence !== null && mark?.startsWith(fence)) fence = null;
    else if (fence === null && line.trim() === '') closed = Math.min(text.length, at + line.length + 1);
    at += line.length + 1;
  }
  return closed;
}

function isTooMuch(text) {
  if (text.length > kLongestParsed) return true;
  const prose = text.replace(/^(`{3,}|~{3,})[^]*?^\1/gmu, '');
  return kDeepList.test(prose) ||
      prose.split(/\n\s*\n/u).some((part) => part.replace(/[^*_]+/gu, '').length > kMostMarks);
}

function asWritten(text) {
  const fragment = document.createDocumentFragment();
  fragment.append(el('div', {class: 'as-written'}, text));
  return fragment;
}

function finishLink(link) {
  if (!link.hasAttribute('href')) {
    link.replaceWith(...link.childNodes);
    return;
  }
  link.target = '_blank';
  link.rel = 'noopener noreferrer nofollow';
}

function finishCode(pre) {
  const code = pre.querySelector('code');
  const language = /language-([\w+#.-]{1,24})/u.exec(code?.className ?? '')?.[1] ?? '';
  code?.removeAttribute('class');
  const copy = button('Copy', () => copyText(pre.textContent.replace(/\n$/u, '')), {'aria-label': 'Copy code'});
  const box = el('div', {class: 'code'}, el('div', {class: 'code-bar'}, el('span', {}, language), copy));
  pre.replaceWith(box);
  pre.tabIndex = 0;  // it scrolls sideways: the keyboard has to reach it
  box.append(pre);
}

function finishTable(table) {
  const box = el('div', {class: 'table', tabindex: 0, role: 'region', 'aria-label': 'Table'});
  table.replaceWith(box);
  box.append(table);
  const rows = [...table.querySelectorAll('tbody tr')];
  if (rows.length <= kTableRows) return;
  const rest = rows.slice(kTableRows);
  const body = rest[0].parentNode;
  for (const row of rest) row.remove();
  const more = button(`Show all ${whole(rows.length)} rows`, () => {
    body.append(...rest);
    more.remove();
  });
  box.append(more);
}
