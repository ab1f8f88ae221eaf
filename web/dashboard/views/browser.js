/* The browser in the sandbox, live; a person can take it over. */
import { h, replace, setText } from '../base/dom.js';
import { visible } from '../base/format.js';
import { childOf } from '../base/wait.js';
import { isAbort } from '../api/client.js';
import { actOn, getHand, handPath, newAttempt } from '../api/service.js';
import { keepSocket } from '../api/socket.js';
import { complain } from '../parts/remarks.js';
import { failure, showState, skeleton, stateMark } from '../parts/state.js';

const GONE = 1011;
const MODIFIERS = [
  ['altKey', 1],
  ['ctrlKey', 2],
  ['metaKey', 4],
  ['shiftKey', 8],
];
export const modifiersOf = (event) =>
  MODIFIERS.reduce((sum, [name, value]) => sum + (event[name] ? value : 0), 0);
const BUTTONS = ['left', 'middle', 'right'];

export async function browserView(place, context) {
  const { id, signal } = context;
  replace(place, skeleton(3));
  try {
    const { running } = await getHand(id, '/v1/browser/pages', signal);
    if (!signal.aborted) (running ? liveView : closedView)(place, context);
  } catch (error) {
    if (!isAbort(error) && !signal.aborted)
      replace(
        place,
        failure(error, () => browserView(place, context)),
      );
  }
}

/* "localhost:8000" is what people type: no scheme, but a host. */
export function addressOf(text) {
  return /^([a-z][a-z0-9+.-]*:\/\/|about:|data:|file:|\/)/i.test(text) ? text : `http://${text}`;
}

/* An address to open; the agent's timeline shows it as an action. */
function addressForm({ id, signal }, value, done) {
  const input = h('input.search.mono', {
    type: 'text',
    inputmode: 'url',
    'aria-label': 'Address',
    placeholder: 'http://localhost:8000/',
    value,
    spellcheck: 'false',
    autocomplete: 'off',
  });
  const button = h('button', { type: 'submit' }, 'Go');
  const form = h('form.row.address', input, button);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const url = addressOf(input.value.trim());
    button.disabled = true;
    try {
      const observation = await actOn(id, { action: 'browse', args: { url } }, newAttempt(), signal);
      const problem =
        observation.observation === 'error'
          ? observation.content
          : observation.extras?.error && observation.extras.last_browser_action_error;
      if (problem) throw new Error(visible(problem));
      done?.();
    } catch (error) {
      complain(error);
    } finally {
      button.disabled = false;
    }
  });
  return { form, input };
}

function closedView(place, context) {
  const { form } = addressForm(context, '', () => browserView(place, context));
  replace(
    place,
    h(
      'div.card.empty',
      h('h2', 'No browser is open'),
      h('p', 'It starts when an agent first uses it, or when you open a page here.'),
      h('div.row.center', form),
    ),
  );
}

function liveView(place, context) {
  const { id, signal } = context;
  const life = childOf(signal);
  const canvas = h('canvas', {
    width: 1280,
    height: 720,
    tabindex: '0',
    role: 'img',
    'aria-label': 'The page in the sandbox',
    'data-keys': 'own',
  });
  const screen = h('div.screen', canvas);
  const mark = stateMark();
  const name = h('span.muted.small.clip');
  const take = h('button', { type: 'button', 'aria-pressed': 'false' }, 'Take over');
  const { form, input } = addressForm(context, '');
  const painter = canvas.getContext('2d');
  let page = { width: 1280, height: 720 };
  let send = () => {};
  let painting = Promise.resolve();

  const say = (message) => send(JSON.stringify(message));
  const setTaken = (on) => {
    take.setAttribute('aria-pressed', String(on));
    setText(take, on ? 'Give back (F6)' : 'Take over');
    screen.classList.toggle('taken', on);
    if (on) canvas.focus();
  };
  const paint = async (bytes) => {
    const picture = await createImageBitmap(new Blob([bytes], { type: 'image/jpeg' }));
    if (canvas.width !== picture.width) canvas.width = picture.width;
    if (canvas.height !== picture.height) canvas.height = picture.height;
    painter.drawImage(picture, 0, 0);
    picture.close();
    canvas.dataset.painted = 'yes';
  };
  take.addEventListener('click', () => setTaken(take.getAttribute('aria-pressed') !== 'true'));
  forwardInput(
    canvas,
    {
      taken: () => take.getAttribute('aria-pressed') === 'true',
      say,
      release: () => {
        setTaken(false);
        take.focus();
      },
      page: () => page,
    },
    life.signal,
  );

  replace(
    place,
    h('div.row', form, take, name, h('span.space'), h('span', { role: 'status' }, mark)),
    screen,
  );
  showState(mark, 'connecting');
  keepSocket(
    id,
    () =>
      handPath(
        id,
        `/v1/browser/live?max_width=${Math.min(1600, Math.round(Math.max(320, screen.clientWidth) * Math.min(2, devicePixelRatio)))}`,
      ),
    {
      opened: (sender) => {
        send = sender;
        showState(mark, 'live');
      },
      text: (message) => {
        if (message.type === 'page') {
          page = message;
          setText(name, visible(message.title || ''));
          canvas.setAttribute(
            'aria-label',
            `The page in the sandbox: ${visible(message.title || message.url)}`,
          );
          if (document.activeElement !== input) input.value = message.url;
        } else if (message.type === 'error') {
          complain(new Error(message.detail));
        }
      },
      bytes: (bytes) => (painting = painting.then(() => paint(bytes)).catch(() => {})),
      closed: (code) => {
        send = () => {};
        if (code !== GONE) return false;
        life.abort();
        browserView(place, context);
        return true;
      },
      lost: () => showState(mark, 'lost', 'reconnecting'),
    },
    life.signal,
  ).catch((error) => {
    if (error.status === 409) browserView(place, context);
    else if (!signal.aborted) replace(screen, failure(error));
  });
}

/* What a person does on the canvas goes to the page, once it is taken over. */
function forwardInput(canvas, { taken, say, release, page }, signal) {
  const options = { signal, passive: false };
  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    const { width, height } = page();
    return {
      x: Math.round(((event.clientX - box.left) / box.width) * width),
      y: Math.round(((event.clientY - box.top) / box.height) * height),
    };
  };
  const mouse = (kind) => (event) => {
    if (!taken()) return;
    event.preventDefault();
    if (kind === 'down') canvas.setPointerCapture(event.pointerId);
    if (kind === 'down') canvas.focus();
    say({
      type: 'mouse',
      event: kind,
      ...point(event),
      button: kind === 'move' && !event.buttons ? 'none' : (BUTTONS[Math.max(0, event.button)] ?? 'left'),
      clicks: kind === 'move' ? 0 : Math.max(1, event.detail || 1),
      modifiers: modifiersOf(event),
    });
  };
  canvas.addEventListener('pointermove', mouse('move'), options);
  canvas.addEventListener('pointerdown', mouse('down'), options);
  canvas.addEventListener('pointerup', mouse('up'), options);
  canvas.addEventListener('contextmenu', (event) => taken() && event.preventDefault(), options);
  canvas.addEventListener(
    'wheel',
    (event) => {
      if (!taken()) return;
      event.preventDefault();
      say({
        type: 'wheel',
        ...point(event),
        dx: Math.round(event.deltaX),
        dy: Math.round(event.deltaY),
        modifiers: modifiersOf(event),
      });
    },
    options,
  );
  const key = (kind) => (event) => {
    if (!taken() || event.isComposing) return;
    if (event.key === 'F6') {
      if (kind === 'down') release();
      event.preventDefault();
      return;
    }
    event.preventDefault();
    say({ type: 'key', event: kind, key: event.key, modifiers: modifiersOf(event) });
  };
  canvas.addEventListener('keydown', key('down'), options);
  canvas.addEventListener('keyup', key('up'), options);
  canvas.addEventListener(
    'paste',
    (event) => taken() && say({ type: 'text', text: event.clipboardData.getData('text/plain') }),
    options,
  );
}
