// Draws the graphs of a report, lets people move about in them, search them, and read what is known of a node.
"use strict";

const NODE_WIDTH = 150;
const NODE_HEIGHT = 44;
const LEGIBLE = 0.5; // zoom from which on texts are drawn
const LEAST_ZOOM = 0.01;
const MOST_ZOOM = 4;
const STEP = 1.3; // of the zoom, for a key, a button or a notch of the wheel
const STRIDE = 80; // pixels that an arrow key moves
const SLOP = 4; // pixels that a pointer may move in a click

const SELECTED = "edgekit:selected";

class Graph {
  constructor(root, number) {
    this.root = root;
    this.number = number;
    const data = JSON.parse(root.querySelector("script").textContent);
    this.nodes = data.nodes;
    this.edges = data.edges.map((edge) => this.route(edge));
    this.modes = data.modes;
    this.mode = data.modes[0];
    this.found = null; // places of the nodes that match the search; null without one
    this.selected = -1;
    this.zoom = 1;
    this.left = 0; // what stands at the canvas's top left corner, in the layout's units
    this.top = 0;
    this.canvas = root.querySelector("canvas");
    this.pen = this.canvas.getContext("2d");
    this.list = root.querySelector("[role=listbox]");
    this.details = root.querySelector(".details");
    this.count = root.querySelector(".count");
    this.legend = root.querySelector(".legend");
    this.search = root.querySelector("input[type=search]");
    this.makers = new Map();
    this.nodes.forEach((node, place) => node.outputs.forEach(([name]) => this.makers.set(name, place)));
    this.readers = new Map();
    this.nodes.forEach((node, place) => {
      for (const [name] of node.inputs) {
        if (!this.readers.has(name)) this.readers.set(name, []);
        this.readers.get(name).push(place);
      }
    });
    this.fillModes();
    this.fillList();
    this.listen();
    this.resize();
    this.overview();
    this.showLegend();
  }

  // An edge as its end nodes, the points of its way, and the box around them.
  route([from, to, ...turns]) {
    const start = this.nodes[from];
    const end = this.nodes[to];
    const points = [[start.x, start.y + NODE_HEIGHT / 2]];
    for (let place = 0; place < turns.length; place += 2) points.push([turns[place], turns[place + 1]]);
    points.push([end.x, end.y - NODE_HEIGHT / 2]);
    const across = points.map(([x]) => x);
    const box = [Math.min(...across), points[0][1], Math.max(...across), points[points.length - 1][1]];
    return { from, to, points, box };
  }

  fillModes() {
    const select = this.root.querySelector("select");
    for (const mode of this.modes) select.add(new Option(mode.name, mode.name));
    select.disabled = this.modes.length === 0;
    select.addEventListener("change", () => {
      this.mode = this.modes[select.selectedIndex];
      this.showLegend();
      this.draw();
    });
  }

  fillList() {
    const items = document.createDocumentFragment();
    this.items = this.nodes.map((node, place) => {
      const item = document.createElement("li");
      item.id = `graph${this.number}-node${place}`;
      item.role = "option";
      item.ariaSelected = "false";
      item.dataset.place = place;
      const operator = document.createElement("b");
      operator.textContent = node.op;
      item.append(operator, ` ${node.name}`);
      items.append(item);
      return item;
    });
    this.list.append(items);
    this.texts = this.nodes.map((node) =>
      [node.op, node.name, ...[...node.inputs, ...node.outputs].map(([name]) => name)].join("\n").toLowerCase(),
    );
    this.countNodes();
  }

  listen() {
    this.search.addEventListener("input", () => this.filter());
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && this.visible().length > 0) this.select(this.best(), { tell: true });
      if (event.key === "ArrowDown") {
        event.preventDefault();
        this.list.focus();
      }
    });
    this.list.addEventListener("click", (event) => {
      const item = event.target.closest("[role=option]");
      if (item) this.select(Number(item.dataset.place), { tell: true });
    });
    this.list.addEventListener("keydown", (event) => this.keyInList(event));
    this.canvas.addEventListener("keydown", (event) => this.keyOnCanvas(event));
    const actions = { in: () => this.scale(STEP), out: () => this.scale(1 / STEP), all: () => this.fit() };
    for (const button of this.root.querySelectorAll("button[data-zoom]")) {
      button.addEventListener("click", actions[button.dataset.zoom]);
    }
    this.listenToPointers();
    // The wheel scrolls the page until the graph is in use, or the key is held that zooms everywhere.
    this.canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && document.activeElement !== this.canvas) return;
        event.preventDefault();
        this.scale(STEP ** (-Math.sign(event.deltaY) * 0.6), event.offsetX, event.offsetY);
      },
      { passive: false },
    );
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    document.addEventListener(SELECTED, ({ detail }) => {
      if (detail.graph === this) return;
      const place = this.nodes.findIndex((node) => node.name === detail.name);
      if (place >= 0) this.select(place, { tell: false });
    });
  }

  listenToPointers() {
    const down = new Map();
    let travelled = 0;
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      if (down.size === 0) travelled = 0;
      down.set(event.pointerId, [event.offsetX, event.offsetY]);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const before = down.get(event.pointerId);
      if (!before) return;
      const now = [event.offsetX, event.offsetY];
      travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
      if (down.size === 1) {
        this.move(before[0] - now[0], before[1] - now[1]);
      } else {
        const other = [...down].find(([id]) => id !== event.pointerId)[1];
        const apart = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]) || 1;
        this.scale(apart(now) / apart(before), other[0], other[1]);
      }
      down.set(event.pointerId, now);
    });
    const up = (event) => {
      if (down.delete(event.pointerId) && down.size === 0 && travelled <= SLOP && event.type === "pointerup") {
        const place = this.at(event.offsetX, event.offsetY);
        if (place >= 0) this.select(place, { tell: true, move: false });
      }
    };
    this.canvas.addEventListener("pointerup", up);
    this.canvas.addEventListener("pointercancel", up);
  }

  keyInList(event) {
    const visible = this.visible();
    const here = visible.indexOf(this.selected);
    const there = {
      ArrowDown: Math.min(here + 1, visible.length - 1),
      ArrowUp: Math.max(here - 1, 0),
      PageDown: Math.min(here + 10, visible.length - 1),
      PageUp: Math.max(here - 10, 0),
      Home: 0,
      End: visible.length - 1,
    }[event.key];
    if (there === undefined || visible.length === 0) return;
    event.preventDefault();
    this.select(visible[there], { tell: true });
  }

  keyOnCanvas(event) {
    const actions = {
      ArrowLeft: () => this.move(-STRIDE, 0),
      ArrowRight: () => this.move(STRIDE, 0),
      ArrowUp: () => this.move(0, -STRIDE),
      ArrowDown: () => this.move(0, STRIDE),
      "+": () => this.scale(STEP),
      "=": () => this.scale(STEP),
      "-": () => this.scale(1 / STEP),
      0: () => this.fit(),
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  }

  // Places of the nodes that the list shows.
  visible() {
    return this.found === null ? [...this.nodes.keys()] : [...this.found];
  }

  filter() {
    const words = this.words();
    const matches = (text) => words.every((word) => text.includes(word));
    this.found = words.length === 0 ? null : new Set([...this.texts.keys()].filter((at) => matches(this.texts[at])));
    this.items.forEach((item, place) => {
      item.hidden = this.found !== null && !this.found.has(place);
    });
    this.countNodes();
    this.draw();
  }

  // The place of the first node whose operator or name matches; else of the first with a tensor that does.
  best() {
    const words = this.words();
    const own = ({ op, name }) => words.every((word) => `${op}\n${name}`.toLowerCase().includes(word));
    const visible = this.visible();
    return visible.find((place) => own(this.nodes[place])) ?? visible[0];
  }

  words() {
    return this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
  }

  countNodes() {
    const all = `${this.nodes.length} nodes`;
    this.count.textContent = this.found === null ? all : `${this.found.size} of ${all}`;
  }

  select(place, { tell, move = true }) {
    if (this.selected >= 0) this.items[this.selected].ariaSelected = "false";
    this.selected = place;
    const item = this.items[place];
    item.ariaSelected = "true";
    this.list.setAttribute("aria-activedescendant", item.id);
    if (!item.hidden) {
      const above = item.offsetTop - this.list.scrollTop;
      if (above < 0) this.list.scrollTop = item.offsetTop;
      const below = above + item.offsetHeight - this.list.clientHeight;
      if (below > 0) this.list.scrollTop += below;
    }
    if (move) this.centre(place);
    this.showDetails();
    this.draw();
    if (tell) {
      const detail = { graph: this, name: this.nodes[place].name };
      document.dispatchEvent(new CustomEvent(SELECTED, { detail }));
    }
  }

  showDetails() {
    const node = this.nodes[this.selected];
    const heading = element("h3", node.name);
    const facts = element("dl");
    const add = (label, ...content) => facts.append(element("dt", label), element("dd", ...content));
    add("operator", node.op);
    if (node.verdict) {
      add("verdict", [node.verdict.support, node.verdict.unit].filter(Boolean).join(" on "));
      add("evidence", [node.verdict.evidence, node.verdict.detail].filter(Boolean).join(": "));
    }
    if (node.precision) add("precision", node.precision);
    for (const [label, text] of Object.entries(node.facts)) add(label, text);
    const parts = [heading, facts];
    parts.push(...this.tensors("Inputs", node.inputs, (name) => (this.makers.has(name) ? [this.makers.get(name)] : [])));
    parts.push(...this.tensors("Outputs", node.outputs, (name) => this.readers.get(name) ?? []));
    const attributes = Object.entries(node.attributes);
    if (attributes.length > 0) {
      const list = element("dl");
      for (const [name, text] of attributes) list.append(element("dt", name), element("dd", text));
      parts.push(element("h4", "Attributes"), list);
    }
    this.details.replaceChildren(...parts);
  }

  // A list of tensors, each with buttons that lead to the nodes at its other end.
  tensors(title, tensors, others) {
    if (tensors.length === 0) return [];
    const list = element("ul");
    for (const [name, type] of tensors) {
      const item = element("li", element("code", name), ` ${type}`);
      for (const place of others(name)) {
        const button = element("button", this.nodes[place].op);
        button.type = "button";
        button.title = this.nodes[place].name;
        button.addEventListener("click", () => this.select(place, { tell: true }));
        item.append(" ", button);
      }
      list.append(item);
    }
    return [element("h4", title), list];
  }

  showLegend() {
    const entries = this.mode ? this.mode.categories : [];
    this.legend.replaceChildren(
      ...entries.map(({ label, colour, count }) => {
        const swatch = element("span");
        swatch.className = "swatch";
        swatch.style.background = `var(--${colour})`;
        return element("li", swatch, `${label} (${count})`);
      }),
    );
  }

  resize() {
    const { clientWidth, clientHeight } = this.canvas;
    this.canvas.width = clientWidth * devicePixelRatio;
    this.canvas.height = clientHeight * devicePixelRatio;
    this.draw();
  }

  bounds() {
    const across = this.nodes.map(({ x }) => x);
    const down = this.nodes.map(({ y }) => y);
    const extent = (figures, size) => [
      figures.reduce((one, other) => Math.min(one, other), Infinity) - size,
      figures.reduce((one, other) => Math.max(one, other), -Infinity) + size,
    ];
    return [extent(across, NODE_WIDTH * 0.6), extent(down, NODE_HEIGHT)];
  }

  fit() {
    if (this.nodes.length === 0) return;
    const [[left, right], [top, bottom]] = this.bounds();
    const { clientWidth, clientHeight } = this.canvas;
    this.zoom = clamp(Math.min(clientWidth / (right - left), clientHeight / (bottom - top)), LEAST_ZOOM, 1);
    this.left = (left + right - clientWidth / this.zoom) / 2;
    this.top = (top + bottom - clientHeight / this.zoom) / 2;
    this.draw();
  }

  // The whole graph where that is legible; else its beginning.
  overview() {
    this.fit();
    if (this.zoom >= LEGIBLE || this.nodes.length === 0) return;
    const first = this.nodes.reduce((one, other) => (other.y < one.y ? other : one));
    this.zoom = 0.8;
    this.left = first.x - this.canvas.clientWidth / this.zoom / 2;
    this.top = first.y - NODE_HEIGHT;
    this.draw();
  }

  centre(place) {
    const { x, y } = this.nodes[place];
    this.zoom = Math.max(this.zoom, LEGIBLE);
    this.left = x - this.canvas.clientWidth / this.zoom / 2;
    this.top = y - this.canvas.clientHeight / this.zoom / 2;
  }

  move(right, down) {
    this.left += right / this.zoom;
    this.top += down / this.zoom;
    this.draw();
  }

  // Zooms, with what stands at a point of the canvas staying there.
  scale(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const zoom = clamp(this.zoom * factor, LEAST_ZOOM, MOST_ZOOM);
    this.left += x / this.zoom - x / zoom;
    this.top += y / this.zoom - y / zoom;
    this.zoom = zoom;
    this.draw();
  }

  // The place of the node at a point of the canvas, or -1.
  at(x, y) {
    const across = this.left + x / this.zoom;
    const down = this.top + y / this.zoom;
    return this.nodes.findIndex(
      (node) => Math.abs(node.x - across) <= NODE_WIDTH / 2 && Math.abs(node.y - down) <= NODE_HEIGHT / 2,
    );
  }

  // Draws before the next frame, however often it is asked to.
  draw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.paint();
    });
  }

  paint() {
    const { pen, canvas, zoom } = this;
    const style = getComputedStyle(this.root);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const right = this.left + canvas.clientWidth / zoom;
    const bottom = this.top + canvas.clientHeight / zoom;
    pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    pen.scale(zoom, zoom);
    pen.translate(-this.left, -this.top);
    this.paintEdges(colour, right, bottom);
    const colours = (this.mode ? this.mode.categories : []).map((category) => colour(category.colour));
    const ink = Object.fromEntries(["face", "edge", "text", "faint", "accent"].map((name) => [name, colour(name)]));
    this.nodes.forEach((node, place) => {
      if (node.x + NODE_WIDTH < this.left || node.x - NODE_WIDTH > right) return;
      if (node.y + NODE_HEIGHT < this.top || node.y - NODE_HEIGHT > bottom) return;
      this.paintNode(node, place, colours[this.mode ? this.mode.of[place] : -1], ink);
    });
    pen.globalAlpha = 1;
  }

  paintEdges(colour, right, bottom) {
    const { pen } = this;
    pen.lineJoin = "round";
    for (const near of [false, true]) {
      pen.strokeStyle = colour(near ? "accent" : "edge");
      pen.lineWidth = near ? Math.max(2.5, 2 / this.zoom) : Math.max(1.2, 0.7 / this.zoom);
      pen.beginPath();
      for (const { from, to, points, box } of this.edges) {
        if ((from === this.selected || to === this.selected) !== near) continue;
        if (box[2] < this.left || box[0] > right || box[3] < this.top || box[1] > bottom) continue;
        points.forEach(([x, y], place) => (place === 0 ? pen.moveTo(x, y) : pen.lineTo(x, y)));
      }
      pen.stroke();
    }
  }

  paintNode(node, place, fill, ink) {
    const { pen, zoom } = this;
    const left = node.x - NODE_WIDTH / 2;
    const top = node.y - NODE_HEIGHT / 2;
    const legible = zoom >= LEGIBLE;
    pen.globalAlpha = this.found !== null && !this.found.has(place) ? 0.15 : 1;
    pen.beginPath();
    pen.roundRect(left, top, NODE_WIDTH, NODE_HEIGHT, 7);
    pen.fillStyle = legible ? ink.face : (fill ?? ink.face);
    pen.fill();
    if (legible && fill) {
      pen.save();
      pen.clip();
      pen.fillStyle = fill;
      pen.fillRect(left, top, 9, NODE_HEIGHT);
      pen.restore();
    }
    const chosen = place === this.selected;
    pen.strokeStyle = chosen ? ink.accent : ink.edge;
    pen.lineWidth = chosen ? Math.max(4, 3 / zoom) : 1.2;
    pen.stroke();
    if (!legible) return;
    pen.fillStyle = ink.text;
    pen.font = "600 14px system-ui, sans-serif";
    pen.fillText(node.op, left + 17, top + 19, NODE_WIDTH - 24);
    pen.fillStyle = ink.faint;
    pen.font = "11px system-ui, sans-serif";
    pen.fillText(ending(node.name, 22), left + 17, top + 35, NODE_WIDTH - 24);
  }
}

// A name's end, which tells more than its beginning.
function ending(name, most) {
  return name.length <= most ? name : `…${name.slice(1 - most)}`;
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

function element(tag, ...content) {
  const made = document.createElement(tag);
  made.append(...content);
  return made;
}

document.querySelectorAll(".graph").forEach((root, number) => new Graph(root, number));
