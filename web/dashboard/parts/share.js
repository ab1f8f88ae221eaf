/* A link that signs in another device of the same person. */
import { h } from '../base/dom.js';
import { makeLink } from '../api/service.js';
import { openDialog } from './dialog.js';
import { complain, remark } from './remarks.js';

export async function shareLink() {
  try {
    const { link } = await makeLink();
    const dialog = openDialog('Sign in on another device', [
      h(
        'p.muted',
        'Open this link there within a minute. It works for whoever has it, and what it opens lasts for half a day.',
      ),
      h('input.mono', {
        value: link,
        readOnly: true,
        'aria-label': 'Link',
        onfocus: (event) => event.target.select(),
      }),
      h(
        'div.answers',
        navigator.clipboard &&
          h(
            'button',
            {
              type: 'button',
              onclick: async () => {
                await navigator.clipboard.writeText(link);
                remark('The link was copied.');
              },
            },
            'Copy',
          ),
        h('button.primary', { type: 'button', onclick: () => dialog.close() }, 'Done'),
      ),
    ]);
  } catch (error) {
    complain(error);
  }
}
