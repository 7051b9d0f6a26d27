// Paints a view of a graph: boxes and the edges between them.
"use strict";

const BOX_WIDTH = 150;
const BOX_HEIGHT = 44;
const LAYER_GAP = { wide: 250, tall: 84 }; // from layer to layer, along the way of the data
const NEIGHBOUR_GAP = { wide: 64, tall: 180 }; // within a layer
const GUTTER = 50; // between two rows of layers, and at their ends
const CORNER = 14;
const LEGIBLE = 0.5; // zoom from which on texts are drawn
const LEGIBLE_TITLE = 0.3; // zoom from which on operators are, in larger letters

// A view with its places on the canvas. Data flows down where the canvas is tall; else to the right, in rows as text
// has lines; as many as give the whole about the shape of the canvas.
class PlacedView {
  constructor(view, wide, units, aspect) {
    this.view = view;
    this.wide = wide;
    this.layerOf = (y) => Math.round(y / units.row);
    this.along = LAYER_GAP[wide ? "wide" : "tall"];
    this.across = NEIGHBOUR_GAP[wide ? "wide" : "tall"] / units.column;
    const layers = view.parts.reduce((most, part) => Math.max(most, this.layerOf(part.y) + 1), 1);
    this.perRow = layers;
    this.stackRows();
    while (wide && this.perRow > 2 && this.width / this.height > aspect * 1.15) {
      this.perRow = Math.ceil(this.perRow * 0.9) - 1;
      this.stackRows();
    }
    this.boxes = view.parts.map((part) => this.place(part.x, part.y));
    this.edges = view.edges.map(([from, to, ...turns]) => {
      const stops = [[view.parts[from].x, view.parts[from].y]];
      for (let at = 0; at < turns.length; at += 2) stops.push([turns[at], turns[at + 1]]);
      stops.push([view.parts[to].x, view.parts[to].y]);
      const steps = stops.slice(1).map((stop, at) => this.step(stops[at], stop, at === 0, at === stops.length - 2));
      const points = steps.flatMap((step) => step.points);
      const xs = points.map(([x]) => x);
      const ys = points.map(([, y]) => y);
      return { from, to, steps, area: [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)] };
    });
    this.leaves = new Set(view.edges.map(([from]) => from));
    this.area = [-BOX_WIDTH * 0.6 - GUTTER, -BOX_HEIGHT, this.width - BOX_WIDTH * 0.4, this.height - BOX_HEIGHT / 2];
    if (!wide) {
      const xs = this.boxes.map(([x]) => x);
      this.area[0] = xs.reduce((one, other) => Math.min(one, other), Infinity) - BOX_WIDTH * 0.6;
      this.area[2] = xs.reduce((one, other) => Math.max(one, other), -Infinity) + BOX_WIDTH * 0.6;
    }
  }

  // How high each row of layers is, and where it begins.
  stackRows() {
    const extents = [];
    const stretch = (x, y) => {
      const row = Math.floor(this.layerOf(y) / this.perRow);
      extents[row] ??= [Infinity, -Infinity];
      extents[row] = [Math.min(extents[row][0], x * this.across), Math.max(extents[row][1], x * this.across)];
    };
    for (const { x, y } of this.view.parts) stretch(x, y);
    for (const [, , ...turns] of this.view.edges) {
      for (let at = 0; at < turns.length; at += 2) stretch(turns[at], turns[at + 1]);
    }
    this.offsets = [];
    this.bottoms = [];
    let top = 0;
    for (let row = 0; row < extents.length; row += 1) {
      const [least, most] = extents[row] ?? [0, 0];
      this.offsets.push(top - least);
      this.bottoms.push(top + most - least);
      top += most - least + BOX_HEIGHT + GUTTER;
    }
    this.width = this.perRow * this.along;
    this.height = this.wide ? Math.max(top, 1) : this.perRow * this.along;
  }

  rowOf(y) {
    return Math.floor(this.layerOf(y) / this.perRow);
  }

  // Where something stands, of its place in the layout.
  place(x, y) {
    const layer = this.layerOf(y);
    if (!this.wide) return [x * this.across, layer * this.along];
    return [(layer % this.perRow) * this.along, x * this.across + this.offsets[this.rowOf(y)]];
  }

  // A part of an edge: a curve within a row; else around the end of its row and along the margin to the other.
  step(start, end, leaves, arrives) {
    const shift = (this.wide ? BOX_WIDTH : BOX_HEIGHT) / 2;
    const moved = ([x, y], by) => (this.wide ? [x + by, y] : [x, y + by]);
    const from = moved(this.place(...start), leaves ? shift : 0);
    const to = moved(this.place(...end), arrives ? -shift : 0);
    if (!this.wide || this.rowOf(start[1]) === this.rowOf(end[1])) return { curved: true, points: [from, to] };
    const right = this.width - BOX_WIDTH / 2 - GUTTER / 2;
    const left = -BOX_WIDTH / 2 - GUTTER / 2;
    const row = this.rowOf(start[1]);
    const below = this.bottoms[row] + (BOX_HEIGHT + GUTTER) / 2;
    return { curved: false, points: [from, [right, from[1]], [right, below], [left, below], [left, to[1]], to] };
  }

  // Where edges leave a box (side 1) or arrive at it (side -1).
  port(part, side) {
    const [x, y] = this.boxes[part];
    return this.wide ? [x + (side * BOX_WIDTH) / 2, y] : [x, y + (side * BOX_HEIGHT) / 2];
  }

  // The number of the box at a point, or -1.
  at(x, y) {
    return this.boxes.findIndex(
      ([left, top]) => Math.abs(left - x) <= BOX_WIDTH / 2 && Math.abs(top - y) <= BOX_HEIGHT / 2,
    );
  }
}

// What a painter needs of the page: colours by name, as the style sheet has them for light and dark.
function inkOf(root) {
  const style = getComputedStyle(root);
  const known = new Map();
  return (name) => {
    if (!known.has(name)) known.set(name, style.getPropertyValue(`--${name}`).trim());
    return known.get(name);
  };
}

class Painter {
  constructor(canvas) {
    this.canvas = canvas;
  }

  // Paints what a window shows.
  paint({ placed, fills, selected, faded, left, top, zoom, ink }) {
    const { clientWidth, clientHeight } = this.canvas;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    pen.clearRect(0, 0, clientWidth, clientHeight);
    pen.scale(zoom, zoom);
    pen.translate(-left, -top);
    const window = [left, top, left + clientWidth / zoom, top + clientHeight / zoom];
    this.paintEdges(pen, placed, selected, window, zoom, ink);
    placed.boxes.forEach(([x, y], part) => {
      if (x + BOX_WIDTH < window[0] || x - BOX_WIDTH > window[2]) return;
      if (y + BOX_HEIGHT < window[1] || y - BOX_HEIGHT > window[3]) return;
      pen.globalAlpha = faded(part) ? 0.15 : 1;
      this.paintBox(pen, placed.view.parts[part], x, y, fills[part], part === selected, zoom, ink);
      if (zoom >= LEGIBLE && placed.leaves.has(part)) this.paintShape(pen, placed, part, ink);
    });
    pen.globalAlpha = 1;
  }

  paintEdges(pen, placed, selected, window, zoom, ink) {
    pen.lineJoin = "round";
    for (const near of [false, true]) {
      pen.strokeStyle = ink(near ? "accent" : "edge");
      pen.lineWidth = near ? Math.max(2.5, 2 / zoom) : Math.max(1.2, 0.7 / zoom);
      pen.beginPath();
      for (const { from, to, steps, area } of placed.edges) {
        if ((from === selected || to === selected) !== near) continue;
        if (area[2] < window[0] || area[0] > window[2] || area[3] < window[1] || area[1] > window[3]) continue;
        for (const step of steps) traceStep(pen, step, placed.wide);
      }
      pen.stroke();
    }
  }

  paintBox(pen, part, x, y, fill, chosen, zoom, ink) {
    const left = x - BOX_WIDTH / 2;
    const top = y - BOX_HEIGHT / 2;
    const legible = zoom >= LEGIBLE;
    const several = part.members.length > 1;
    if (several) {
      pen.beginPath(); // a second sheet behind the first
      pen.roundRect(left + 4, top + 4, BOX_WIDTH, BOX_HEIGHT, 7);
      pen.fillStyle = ink("face");
      pen.fill();
      pen.strokeStyle = ink("edge");
      pen.lineWidth = 1;
      pen.stroke();
    }
    pen.beginPath();
    pen.roundRect(left, top, BOX_WIDTH, BOX_HEIGHT, 7);
    pen.fillStyle = legible ? ink("face") : (fill ?? ink("face"));
    pen.fill();
    if (legible && fill) {
      pen.save();
      pen.clip();
      pen.fillStyle = fill;
      pen.fillRect(left, top, 9, BOX_HEIGHT);
      pen.restore();
    }
    pen.strokeStyle = ink(chosen ? "accent" : "edge");
    pen.lineWidth = chosen ? Math.max(4, 3 / zoom) : 1.2;
    pen.stroke();
    pen.textAlign = "left";
    if (!legible && zoom >= LEGIBLE_TITLE) {
      pen.fillStyle = ink(fill ? "face" : "text");
      pen.font = "600 24px system-ui, sans-serif";
      pen.fillText(part.title, left + 8, top + 31, BOX_WIDTH - 16);
    }
    if (!legible) return;
    pen.fillStyle = ink("text");
    pen.font = "600 14px system-ui, sans-serif";
    pen.fillText(part.title, left + 17, top + 19, BOX_WIDTH - 24);
    pen.fillStyle = ink("faint");
    pen.font = "11px system-ui, sans-serif";
    pen.fillText(ending(part.name, 22), left + 17, top + 35, BOX_WIDTH - 24);
  }

  // The shape of what leaves a box, beside the beginning of its edges.
  paintShape(pen, placed, part, ink) {
    const [x, y] = placed.port(part, 1);
    pen.fillStyle = ink("faint");
    pen.font = "10px system-ui, sans-serif";
    pen.textAlign = "left";
    const text = placed.view.parts[part].shape;
    if (placed.wide) pen.fillText(text, x + 6, y - 5, LAYER_GAP.wide - BOX_WIDTH - 12);
    else pen.fillText(text, x + 6, y + 14, BOX_WIDTH / 2);
  }
}

// A part of an edge: curved between layers, as the eye follows it best; with round corners where it goes around.
function traceStep(pen, { curved, points }, wide) {
  pen.moveTo(...points[0]);
  if (!curved) {
    points.slice(1, -1).forEach((point, at) => pen.arcTo(...point, ...points[at + 2], CORNER));
    pen.lineTo(...points[points.length - 1]);
    return;
  }
  const [[x0, y0], [x1, y1]] = points;
  if (wide) pen.bezierCurveTo((x0 + x1) / 2, y0, (x0 + x1) / 2, y1, x1, y1);
  else pen.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
}

// A name's end, which tells more than its beginning.
function ending(name, most) {
  return name.length <= most ? name : `…${name.slice(1 - most)}`;
}
