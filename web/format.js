// Numbers and times as people read them.

const kWhole = new Intl.NumberFormat('en-US');
const kShort = new Intl.NumberFormat('en-US', {notation: 'compact', maximumSignificantDigits: 3});

export const whole = (number) => kWhole.format(number);
export const short = (number) => kShort.format(number);

export const plural = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;

export const percent = (share) => `${Math.round(share * 100)} %`;

export function countWords(text) {
  return text.trim() === '' ? 0 : text.trim().split(/\s+/u).length;
}

export function when(seconds) {
  if (!seconds) return '';
  const then = new Date(seconds * 1000);
  const now = new Date();
  if (then.toDateString() === now.toDateString()) {
    return then.toLocaleTimeString([], {hour: '2-digit', minute: '2-digit'});
  }
  const year = then.getFullYear() === now.getFullYear() ? undefined : 'numeric';
  return then.toLocaleDateString([], {day: 'numeric', month: 'short', year});
}

// The first words of a text, on one line.
export function excerpt(text, length) {
  const line = text.slice(0, length * 4).replace(/\s+/gu, ' ').trim();
  return line.length <= length ? line : `${line.slice(0, length - 1).trimEnd()}…`;
}
