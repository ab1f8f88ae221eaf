/* What becomes of the actions of a key: the fields of a form, and its answer as `security` of the API has it. */

/* Member of `security`, label, words. */
const DECISIONS = ['allow', 'ask', 'block'];
const ROWS = [
  ['low', 'Actions of low risk', ...DECISIONS],
  ['medium', 'Actions of medium risk', ...DECISIONS],
  ['high', 'Actions of high risk', ...DECISIONS],
  ['unknown', 'Actions of unknown risk', ...DECISIONS],
  ['confirmation', 'Who is asked about actions', 'never', 'risky', 'always'],
];

/* own: what the key has so far; the rest is as the service says. */
export const thresholdFields = (own = {}) =>
  ROWS.map(([name, label, ...words]) => ({
    name,
    label,
    value: own[name] ?? '',
    options: [['as the service says', ''], ...words],
  }));

/* null: as the service says. */
export const thresholdsOf = (values) => Object.fromEntries(ROWS.map(([name]) => [name, values[name] || null]));
