/* Light, dark, or as the system says. */
import { Emitter } from '../base/emitter.js';

const NAME = 'tendon.theme';
export const THEMES = ['auto', 'light', 'dark'];
const system = matchMedia('(prefers-color-scheme: dark)');

class Theme extends Emitter {
  get choice() {
    const kept = localStorage.getItem(NAME);
    return THEMES.includes(kept) ? kept : 'auto';
  }

  get dark() {
    return this.choice === 'auto' ? system.matches : this.choice === 'dark';
  }

  choose(choice) {
    if (choice === 'auto') localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, choice);
    this.apply();
  }

  next() {
    this.choose(THEMES[(THEMES.indexOf(this.choice) + 1) % THEMES.length]);
  }

  apply() {
    if (this.choice === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.choice;
    this.emit('change');
  }
}

export const theme = new Theme();
system.addEventListener('change', () => theme.apply());
theme.apply();
