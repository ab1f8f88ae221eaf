/* Who is there: an API key, or a login ticket that the command line has put into the address. */
import { h } from '../base/dom.js';
import { visible } from '../base/format.js';
import { session } from '../api/session.js';
import { exchangeTicket, getMe } from '../api/service.js';
import { field } from '../parts/dialog.js';
import { remark, setPage } from '../parts/remarks.js';

/* note: why one is here again; done(me) when the key is good. */
export function signInView({ note, ticket, done }) {
  const problem = h('p.note.bad', { role: 'alert', hidden: true });
  const button = h('button.primary', { type: 'submit' }, 'Sign in');
  const form = h(
    'form.stack',
    field({
      name: 'key',
      label: 'API key',
      type: 'password',
      placeholder: 'tnk_…',
      required: true,
      autofocus: true,
      autocomplete: 'current-password',
    }),
    field({ name: 'remember', label: 'Remember on this computer', type: 'checkbox' }),
    problem,
    button,
    h(
      'p.small.muted',
      'A key is made with ',
      h('code', 'tendon key create'),
      ' on the machine of the service.',
    ),
  );

  const refuse = ({ status, message }) => {
    problem.hidden = false;
    problem.textContent =
      status === 401 || status === 403
        ? 'This key is not accepted. Check that it is complete and was not revoked.'
        : message;
    form.elements.key.focus();
  };
  const enter = async (key, remember) => {
    problem.hidden = true;
    button.disabled = true;
    button.setAttribute('aria-busy', 'true');
    try {
      const me = await getMe({ key });
      session.keep(key, remember);
      done(me);
      return me;
    } catch (error) {
      refuse(error);
      return null;
    } finally {
      button.disabled = false;
      button.removeAttribute('aria-busy');
    }
  };
  const enterByLink = async () => {
    try {
      const me = await enter(await exchangeTicket(ticket), false);
      if (me)
        remark(`Signed in by a link, with the key ${visible(me.name || me.key)} of ${visible(me.tenant)}.`);
    } catch ({ status, message }) {
      refuse(
        status === 401
          ? { message: 'This link is too old. Ask for another one, or type a key.' }
          : { message },
      );
    }
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const key = form.elements.key.value.trim();
    if (/^[!-~]+$/.test(key)) enter(key, form.elements.remember.checked);
    else refuse({ status: 401 }); /* nothing that could be sent */
  });

  document.title = 'Sign in – Tendon';
  setPage(
    h(
      'main.sign-in',
      h(
        'div.card',
        h('h1', h('img', { src: '/dashboard/icon.svg', alt: '', width: 28, height: 28 }), 'Tendon'),
        h('p.muted.small', { role: 'status' }, note || 'Sandboxes for agents, and a window to watch them.'),
        h('div.stack', form),
      ),
    ),
  );
  form.elements.key.focus();
  if (ticket) enterByLink();
}
