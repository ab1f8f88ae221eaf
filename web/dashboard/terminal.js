/*! xterm.js: Copyright (c) 2014-2018 The xterm.js authors, 2012-2013 Christopher Jeffrey, MIT License.
 * https://github.com/xtermjs/xterm.js/blob/master/LICENSE */
/* The terminal emulator, loaded when somebody first opens a terminal: no other file knows xterm.js. */
import { Terminal } from 'xterm/lib/public/Terminal';

const LIGHT = {
  background: '#fbfbfc',
  foreground: '#1b1b20',
  cursor: '#3650c9',
  cursorAccent: '#ffffff',
  selection: 'rgba(54, 80, 201, 0.25)',
  black: '#1b1b20',
  red: '#b42335',
  green: '#1a7f4b',
  yellow: '#8a5a00',
  blue: '#3650c9',
  magenta: '#8a3a9c',
  cyan: '#0f7280',
  white: '#6d6d79',
  brightBlack: '#5e5e6a',
  brightRed: '#c93546',
  brightGreen: '#258f58',
  brightYellow: '#9c6a0a',
  brightBlue: '#4a63d8',
  brightMagenta: '#9c4cae',
  brightCyan: '#1d8290',
  brightWhite: '#1b1b20',
};
const DARK = {
  background: '#0f0f12',
  foreground: '#ececf1',
  cursor: '#9fb0ff',
  cursorAccent: '#0f0f12',
  selection: 'rgba(159, 176, 255, 0.3)',
  black: '#25252b',
  red: '#ff8f98',
  green: '#5cc98e',
  yellow: '#e2b45c',
  blue: '#9fb0ff',
  magenta: '#d8a0e6',
  cyan: '#6fc8d4',
  white: '#d5d5dc',
  brightBlack: '#7b7b87',
  brightRed: '#ffa9b0',
  brightGreen: '#7fdcaa',
  brightYellow: '#f0cb84',
  brightBlue: '#bac6ff',
  brightMagenta: '#e6bdf0',
  brightCyan: '#93dbe5',
  brightWhite: '#ffffff',
};

/* A terminal in `place`.  input(bytes): what the person typed (or what a program asked the terminal, once
 * the person has typed: who only watches must not answer); resized(columns, rows); leave(): F6. */
export function openTerminal(place, { dark, readable, still, input, resized, leave, label }) {
  const term = new Terminal({
    theme: dark ? DARK : LIGHT,
    fontFamily: getComputedStyle(place).getPropertyValue('--mono'),
    fontSize: 13,
    lineHeight: 1.2,
    scrollback: 5000,
    cursorBlink: !still,
    screenReaderMode: readable,
    macOptionIsMeta: true,
    allowTransparency: false,
  });
  const encoder = new TextEncoder();
  const decoder = new TextDecoder();
  const life = new AbortController();
  let typed = false;

  term.open(place);
  term.textarea.setAttribute('aria-label', label);
  const noteTyping = () => (typed = true);
  for (const kind of ['keydown', 'paste', 'compositionend', 'input'])
    term.textarea.addEventListener(kind, noteTyping, { capture: true, signal: life.signal });
  place.addEventListener('paste', noteTyping, { capture: true, signal: life.signal });
  term.on('data', (text) => typed && input(encoder.encode(text)));
  term.on('resize', ({ cols, rows }) => resized(cols, rows));
  term.attachCustomKeyEventHandler((event) => {
    if (event.type !== 'keydown') return true;
    if (event.key === 'F6') leave();
    else if (event.ctrlKey && event.shiftKey && event.code === 'KeyC')
      navigator.clipboard?.writeText(term.getSelection());
    else if (event.ctrlKey && event.shiftKey && event.code === 'KeyV') return true; /* the browser pastes */
    else if (
      (event.ctrlKey || event.metaKey) &&
      event.key.toLowerCase() === 'k' &&
      !event.altKey &&
      event.metaKey
    )
      return false;
    else return true;
    event.preventDefault();
    return false;
  });

  const fit = () => {
    const cell = term._core.renderer.dimensions;
    if (!place.clientWidth || !cell.actualCellWidth) return;
    const columns = Math.floor(
      (place.clientWidth - term._core.viewport.scrollBarWidth) / cell.actualCellWidth,
    );
    const rows = Math.floor(place.clientHeight / cell.actualCellHeight);
    if (columns > 1 && rows > 1 && (columns !== term.cols || rows !== term.rows)) term.resize(columns, rows);
  };
  const observer = new ResizeObserver(fit);
  observer.observe(place);
  fit();

  return {
    get size() {
      return { columns: term.cols, rows: term.rows };
    },
    write: (bytes) => term.write(decoder.decode(bytes, { stream: true })),
    say: (text) => term.write(`\r\n\x1b[2m${text}\x1b[0m\r\n`),
    type: (text) => {
      typed = true;
      input(encoder.encode(text));
    },
    focus: () => term.focus(),
    fit,
    setDark: (on) => term.setOption('theme', on ? DARK : LIGHT),
    setReadable: (on) => term.setOption('screenReaderMode', on),
    /* The lines on the screen, for tests and for copying. */
    text: () => {
      const { lines, ydisp } = term._core.buffer;
      return Array.from({ length: term.rows }, (_, i) =>
        lines.get(ydisp + i) ? term._core.buffer.translateBufferLineToString(ydisp + i, true) : '',
      ).join('\n');
    },
    dispose: () => {
      life.abort();
      observer.disconnect();
      term.dispose();
    },
  };
}
