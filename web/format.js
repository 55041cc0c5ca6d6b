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
  const sameYear = then.getFullYear() === now.getFullYear();
  return then.toLocaleDateString([], {
    day: 'numeric', month: 'short', ...(sameYear ? {} : {year: 'numeric'}),
  });
}

// The first words of a text, on one line.
export function excerpt(text, length) {
  const line = text.slice(0, length * 4).replace(/\s+/gu, ' ').trim();
  if (line.length <= length) return line;
  const cut = line.slice(0, length);
  const space = cut.lastIndexOf(' ');
  return `${space > length / 2 ? cut.slice(0, space) : cut}…`;
}
