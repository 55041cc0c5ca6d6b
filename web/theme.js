// Light, dark, or as the system has it.

import {byId} from './dom.js';

const kThemes = ['system', 'light', 'dark'];
const kStored = 'mooring.theme';

export function startTheme(changed) {
  const stored = localStorage.getItem(kStored);
  let theme = kThemes.includes(stored) ? stored : 'system';
  const show = () => {
    document.documentElement.dataset.theme = theme;
    byId('theme').textContent = {system: 'Auto', light: 'Light', dark: 'Dark'}[theme];
    byId('theme').setAttribute('aria-label', `Colours: ${theme}`);
    changed();
  };
  byId('theme').addEventListener('click', () => {
    theme = kThemes[(kThemes.indexOf(theme) + 1) % kThemes.length];
    localStorage.setItem(kStored, theme);
    show();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', changed);
  show();
}
