/* A small line chart: the last minutes of one number. */
import { h, setText, svg } from '../base/dom.js';

const WIDTH = 300;
const HEIGHT = 100;

/* Points [{ at, value }] (seconds) within the last `span` seconds -> the path of the line; a gap of
 * more than `gap` seconds breaks it. */
export function linePath(points, now, span, top, gap) {
  let path = '';
  let before = null;
  for (const { at, value } of points) {
    if (at < now - span) continue;
    const x = WIDTH * (1 - (now - at) / span);
    const y = HEIGHT * (1 - Math.min(1, top > 0 ? value / top : 0));
    path += `${before === null || at - before > gap ? 'M' : 'L'}${x.toFixed(1)} ${y.toFixed(1)}`;
    before = at;
  }
  return path;
}

/* A round number that is not below any of the values, so that the scale does not jump about. */
export function niceTop(values, least) {
  const most = Math.max(least, ...values);
  const unit = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((k) => k * unit).find((top) => top >= most * 0.999);
}

/* The same for bytes: a power of two. */
export function niceBytes(values, least) {
  return 2 ** Math.ceil(Math.log2(Math.max(least, ...values)));
}

/* The shortest of some spans (seconds) that shows all points. */
export function spanFor(points, now) {
  const needed = points.length ? now - points[0].at : 0;
  return [60, 120, 300, 600].find((span) => span >= needed) ?? 600;
}

export function chart(title, { format, scale }) {
  const value = h('span.muted');
  const topText = h('span');
  const sinceText = h('span');
  const line = svg('path', { class: 'line' });
  const area = svg('path', { class: 'area' });
  const grid = [0, 0.5, 1].map((y) =>
    svg('line', { class: 'grid', x1: 0, x2: WIDTH, y1: y * HEIGHT, y2: y * HEIGHT }),
  );
  const picture = svg(
    'svg',
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img' },
    ...grid,
    area,
    line,
  );
  const element = h(
    'section.card.chart',
    h('header', h('h3', title), value),
    picture,
    h('footer', sinceText, topText, h('span', 'now')),
  );
  return {
    element,
    show(points, now, note = '') {
      const span = spanFor(points, now);
      const top = scale(points.map((point) => point.value));
      const path = linePath(points, now, span, top, 15);
      const last = points.at(-1);
      const text = last ? format(last.value) : 'no numbers yet';
      line.setAttribute('d', path);
      area.setAttribute('d', points.length > 1 && !path.includes('M', 1) ? areaUnder(path) : '');
      setText(value, `${text}${note}`);
      setText(topText, `top ${format(top)}`);
      setText(sinceText, `${span / 60} min ago`);
      picture.setAttribute('aria-label', `${title}: ${text}${note}`);
    },
  };
}

function areaUnder(path) {
  const xs = [...path.matchAll(/[ML]([\d.-]+)/g)].map((match) => match[1]);
  return `${path}L${xs.at(-1)} ${HEIGHT}L${xs[0]} ${HEIGHT}Z`;
}
