// The graphs of a report: lets people move about in them, search them, and read what is known of a node.
"use strict";

const LEAST_ZOOM = 0.01;
const MOST_ZOOM = 4;
const CLOSE = 1; // zoom at which a selected node is shown
const STEP = 1.3; // of the zoom, for a key, a button or a notch of the wheel
const STRIDE = 80; // pixels that an arrow key moves
const SLOP = 4; // pixels that a pointer may move in a click

const SELECTED = "edgekit:selected";

class Graph {
  constructor(root, number) {
    this.root = root;
    root.hidden = false;
    this.number = number;
    const data = JSON.parse(root.querySelector("script").textContent);
    this.nodes = data.nodes;
    this.units = data.units;
    this.views = data.views;
    this.modes = data.modes;
    this.mode = 0;
    this.found = null; // numbers of the nodes that match the search; null without one
    this.selected = -1; // number of a node
    this.part = -1; // number of a part of the view
    this.zoom = 1;
    this.left = 0; // what stands at the canvas's top left corner, in the view's units
    this.top = 0;
    this.canvas = root.querySelector("canvas");
    this.painter = new Painter(this.canvas);
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
    this.fillViews();
    this.fillList();
    this.listen();
    this.show(0);
    this.showLegend();
  }

  // Changes to a view; what was selected stays so.
  show(number) {
    this.viewNumber = number;
    const view = this.views[number];
    this.partOf = new Map();
    view.parts.forEach((part, place) => part.members.forEach((member) => this.partOf.set(member, place)));
    this.root.querySelector("select.views").selectedIndex = number;
    this.part = this.selected >= 0 ? this.partOf.get(this.selected) : -1;
    this.placed = null;
    this.resize();
    if (this.part >= 0) this.centre(this.part);
    else this.overview();
    this.draw();
  }

  fillViews() {
    const select = this.root.querySelector("select.views");
    for (const { name, parts } of this.views) select.add(new Option(`${name} (${parts.length})`, name));
    select.disabled = this.views.length < 2;
    select.addEventListener("change", () => this.show(select.selectedIndex));
  }

  fillModes() {
    const select = this.root.querySelector("select.modes");
    for (const mode of this.modes) select.add(new Option(mode.name, mode.name));
    select.disabled = this.modes.length === 0;
    select.addEventListener("change", () => {
      this.mode = select.selectedIndex;
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
        this.click(this.placed.at(this.left + event.offsetX / this.zoom, this.top + event.offsetY / this.zoom));
      }
    };
    this.canvas.addEventListener("pointerup", up);
    this.canvas.addEventListener("pointercancel", up);
    this.canvas.addEventListener("dblclick", () => this.open());
  }

  click(part) {
    if (part < 0) return;
    const { members } = this.views[this.viewNumber].parts[part];
    if (members.length === 1) this.select(members[0], { tell: true, move: false });
    else this.selectPart(part);
  }

  // A part of several nodes: what they are together, and the way to them.
  selectPart(number) {
    if (this.selected >= 0) this.items[this.selected].ariaSelected = "false";
    this.selected = -1;
    this.part = number;
    const part = this.views[this.viewNumber].parts[number];
    const facts = element("dl");
    for (const [label, text] of Object.entries(part.facts)) facts.append(element("dt", label), element("dd", text));
    const button = element("button", `Show its ${part.members.length} nodes`);
    button.type = "button";
    button.addEventListener("click", () => this.open());
    const members = element("ul");
    for (const member of part.members) {
      const { op, name } = this.nodes[member];
      const lead = element("button", op);
      lead.type = "button";
      lead.addEventListener("click", () => this.select(member, { tell: true }));
      members.append(element("li", lead, ` ${name}`));
    }
    this.details.replaceChildren(element("h3", part.name), facts, button, element("h4", "Nodes"), members);
    this.draw();
  }

  // The nodes of the selected part, one by one, as large as they fit.
  open() {
    const part = this.views[this.viewNumber].parts[this.part];
    if (!part || part.members.length === 1) return;
    const members = part.members;
    this.part = -1;
    this.show(this.views.length - 1);
    const boxes = members.map((member) => this.placed.boxes[this.partOf.get(member)]);
    const xs = boxes.map(([x]) => x);
    const ys = boxes.map(([, y]) => y);
    this.fitTo([
      Math.min(...xs) - BOX_WIDTH,
      Math.min(...ys) - BOX_HEIGHT,
      Math.max(...xs) + BOX_WIDTH,
      Math.max(...ys) + BOX_HEIGHT,
    ]);
    if (this.zoom < LEGIBLE) {
      this.zoom = LEGIBLE;
      [this.left, this.top] = [xs[0] - BOX_WIDTH, ys[0] - this.canvas.clientHeight / this.zoom / 2];
    }
    this.canvas.focus();
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
    this.part = this.partOf.get(place);
    if (move) this.centre(this.part);
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
    const entries = this.modes.length > 0 ? this.modes[this.mode].categories : [];
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
    const wide = clientWidth > clientHeight;
    if (this.placed === null || this.placed.wide !== wide) {
      const turned = this.placed !== null;
      this.placed = new PlacedView(this.views[this.viewNumber], wide, this.units, clientWidth / clientHeight);
      if (turned) this.overview();
    }
    this.draw();
  }

  fit() {
    if (this.nodes.length > 0) this.fitTo(this.placed.area);
  }

  fitTo([left, top, right, bottom]) {
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
    this.zoom = 0.8;
    const [left, top] = this.placed.area;
    const [x] = this.placed.boxes.reduce((one, other) => (other[1] < one[1] ? other : one));
    this.left = this.placed.wide ? left : x - this.canvas.clientWidth / this.zoom / 2;
    this.top = top;
    this.draw();
  }

  // Brings a part to the middle, near enough to read it and its neighbours.
  centre(part) {
    const [x, y] = this.placed.boxes[part];
    this.zoom = Math.max(this.zoom, CLOSE);
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
    const ink = inkOf(this.root);
    const { placed, zoom, left, top, part: selected } = this;
    const mode = this.modes[this.mode];
    const colours = (mode ? mode.categories : []).map((category) => ink(category.colour));
    const fills = mode ? mode.of[this.viewNumber].map((category) => colours[category]) : [];
    const { parts } = placed.view;
    const faded = (part) => this.found !== null && !parts[part].members.some((member) => this.found.has(member));
    this.painter.paint({ placed, fills, selected, faded, left, top, zoom, ink });
  }
}

function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

function element(tag, ...content) {
  const made = document.createElement(tag);
  made.append(...content);
  return made;
}

const graphs = [...document.querySelectorAll(".graph")].map((root, number) => new Graph(root, number));
