/* Draws a PDF file: a canvas per page, each with the text of its page for who cannot see it. */
'use strict';

const SCALE = 1.5;
const LARGEST = 8192; /* pixels of a side; a browser draws nothing on a larger canvas */
const MOST = 2000; /* pages shown; more of them would be a burden for the browser */
const NEAR = '1500px'; /* pages this close to the view are drawn, others are not kept in memory */

function problem(text) {
  const p = document.createElement('p');
  p.textContent = text;
  document.body.append(p);
}

function sized(canvas, page) {
  const { width, height } = page.getViewport({ scale: 1 });
  const scale = Math.min(SCALE, LARGEST / width, LARGEST / height);
  const viewport = page.getViewport({ scale });
  canvas.style.width = `${Math.floor(viewport.width)}px`;
  canvas.style.height = `${Math.floor(viewport.height)}px`;
  return viewport;
}

async function draw(pdf, canvas, number) {
  const page = await pdf.getPage(number);
  const viewport = sized(canvas, page);
  canvas.width = Math.floor(viewport.width);
  canvas.height = Math.floor(viewport.height);
  await page.render({ canvasContext: canvas.getContext('2d'), viewport }).promise;
  if (!canvas.textContent) {
    const text = await page.getTextContent();
    canvas.textContent = text.items.map((item) => item.str + (item.hasEOL ? '\n' : '')).join('');
  }
  canvas.dataset.drawn = '';
  page.cleanup();
}

function release(canvas) {
  canvas.width = canvas.height = 1; /* its style keeps its place */
  delete canvas.dataset.drawn;
}

/* Brings canvases one after the other to what is wanted of them by then. */
class Pages {
  constructor(pdf) {
    this.pdf = pdf;
    this.wanted = new Map(); /* canvas -> seen */
    this.last = Promise.resolve();
  }

  want(canvas, number, seen) {
    this.wanted.set(canvas, seen);
    this.last = this.last.then(() => this.settle(canvas, number));
  }

  async settle(canvas, number) {
    const drawn = 'drawn' in canvas.dataset;
    if (this.wanted.get(canvas) === drawn) return;
    if (drawn) {
      release(canvas);
      return;
    }
    try {
      await draw(this.pdf, canvas, number);
    } catch (error) {
      const text = `Error viewing page ${number}: ${error.message}`;
      if (canvas.title !== text) problem(text);
      canvas.title = text;
    }
  }
}

async function show() {
  const pdf = await pdfjsLib.getDocument({
    url: 'file' + location.search,
    isEvalSupported: false, /* the fonts of a file are not to become programs */
  }).promise;
  const count = Math.min(pdf.numPages, MOST);
  const pages = new Pages(pdf);
  const numbers = new Map();
  const first = document.querySelector('canvas.page');

  sized(first, await pdf.getPage(1));
  for (let number = 1; number <= count; number++) {
    const canvas = number === 1 ? first : document.createElement('canvas');
    canvas.className = 'page';
    canvas.setAttribute('aria-label', `Page ${number} of ${pdf.numPages}`);
    canvas.style.width = first.style.width; /* until it is drawn */
    canvas.style.height = first.style.height;
    numbers.set(canvas, number);
    if (canvas !== first) document.body.append(canvas);
  }
  if (count < pdf.numPages) problem(`Only the first ${count} of ${pdf.numPages} pages are shown.`);
  pages.want(first, 1, true);

  const observer = new IntersectionObserver((changes) => {
    for (const { target, isIntersecting } of changes) {
      pages.want(target, numbers.get(target), isIntersecting);
    }
  }, { rootMargin: NEAR });
  for (const canvas of numbers.keys()) observer.observe(canvas);
}

pdfjsLib.GlobalWorkerOptions.workerSrc = 'script/pdf.worker.js';
show().catch((error) => {
  document.querySelector('canvas.page').remove();
  problem(`Error viewing file: ${error.message}`);
});
