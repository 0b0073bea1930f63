/* Draws the timeline of a run. What is drawn was chosen where the page was made; this lays it out, and answers keys. */
(async () => {
  "use strict";
  const ROW = 24, CHART = 150, GAP = 34, TOP = 48, CHARTS_FIRST = 4, LETTER = 7.5, SMALL_LETTER = 6.2, BOX = 15, TIP = 12, EPSILON = 1e-9;
  const data = JSON.parse(document.getElementById("timeline-data").textContent);
  const plot = document.getElementById("plot"), frame = document.getElementById("timeline");
  const said = document.getElementById("said"), tip = document.getElementById("tip"), root = document.documentElement;
  const METADATA = "__cluster_metadata-0";
  // Style of a bar -> its height, its place below the middle of the lane, and whether it has a pattern.
  const STYLES = {
    up: [0.84, 0], down: [0.84, 0, "x"], leads: [0.84, 0], votes: [0.84, 0], leader: [0.8, 0], unclean: [0.8, 0], isr: [0.8, 0],
    out: [0.8, 0], fault: [0.84, 0], request: [0.7, 0], waits: [0.16, 0], ok: [0.46, 0], unknown: [0.56, 0],
    refused: [0.36, 0], open: [0.56, 0], fail: [0.56, 0], paused: [0.84, 0, "/"], cut: [0.2, 0.34],
  };
  // What has no length, as an operation's return, is as wide as its line.
  const LINES = { up: 0, out: 0, waits: 0, fail: 2, unknown: 2, refused: 2 };
  const DASHES = { "log end": "solid", "high watermark": "dash" };
  const unique = (values) => [...new Set(values)];
  // Plotly takes a little HTML in its texts; names come from whoever wrote the scenario.
  const safe = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const folded = (text) => safe(text).replace(/(.{60}\S*)\s/g, "$1<br>");
  const seconds = (at) => `${at.toFixed(3)} s`;

  // ---- what is shown -------------------------------------------------------------------------------------

  const tps = unique([...data.lanes.map((lane) => lane.tp), ...data.series.map((line) => line.tp)]).filter(Boolean);
  const names = data.lanes.filter((lane) => lane.group === "nodes").map((lane) => lane.node);
  const promises = unique([...data.breaks, ...data.marks, ...data.arrows].map((each) => each.promise)).sort();
  const broken = new Set(data.breaks.map((each) => each.key));
  const first = [...tps].sort((a, b) => (broken.has(b) - broken.has(a)) || ((a === METADATA) - (b === METADATA)));
  const hidden = {
    tp: new Set(first.filter((tp, number) => !broken.has(tp) && (number >= CHARTS_FIRST || tp === METADATA))),
    node: new Set(), promise: new Set(),
  };
  // What is at the end of the trace is not drawn on the edge.
  const whole = [data.begin, Math.max(data.end, data.begin + 0.001) + 0.03 * (data.end - Math.min(data.opens, data.end))];
  const home = [Math.min(data.opens, data.end), data.closes < data.end ? data.closes : whole[1]];
  let range = [...home], evidence = -1, charts = [], near = true;
  const replicas = (tp) => unique(data.series.filter((line) => line.tp === tp).map((line) => line.node)).sort();
  // A node has its colour in all charts.
  const kind = (node) => node.replace(/-\d+$/, "");
  const nodes = unique(data.series.map((line) => line.node)).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const lineColour = (colour, node) =>
    colour(`line-${nodes.filter((each) => kind(each) === kind(node)).indexOf(node) % 6 + 1}`);
  const TURNS = { truncates: ["triangle-down", "truncates"], empty: ["x", "empty disk"], leads: ["star", "leads"] };

  const filters = { tp: tps, node: names, promise: promises };
  for (const [what, every] of Object.entries(filters)) {
    const details = document.getElementById(`filter-${what}`), box = details.querySelector("div");
    const all = document.createElement("button");
    all.type = "button";
    all.textContent = "All or none";
    all.addEventListener("click", () => {
      const fill = hidden[what].size === 0;
      hidden[what] = new Set(fill ? every : []);
      for (const input of box.querySelectorAll("input")) input.checked = !fill;
      draw();
    });
    box.append(all);
    for (const name of every) {
      const label = document.createElement("label"), input = document.createElement("input");
      input.type = "checkbox";
      input.checked = !hidden[what].has(name);
      input.value = name;
      input.addEventListener("change", () => {
        if (input.checked) hidden[what].delete(name); else hidden[what].add(name);
        draw();
      });
      label.append(input, ` ${name}`);
      box.append(label);
    }
    if (!every.length) details.hidden = true;
    details.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { details.open = false; details.querySelector("summary").focus(); }
    });
    document.addEventListener("click", (event) => { if (!details.contains(event.target)) details.open = false; });
  }

  const shows = (each) => !hidden.promise.has(each.promise);
  const visible = (lane) => !(lane.node && hidden.node.has(lane.node)) && !(lane.tp && hidden.tp.has(lane.tp));

  function rows() {
    const narrow = frame.clientWidth < 640;
    const titles = { faults: narrow ? "faults" : "faults and requests",
      nodes: narrow ? "nodes" : "nodes and operations", partitions: "replicas" };
    const found = [];
    let group = "";
    for (const lane of data.lanes.filter(visible)) {
      if (lane.group !== group) found.push({ heading: titles[lane.group] });
      group = lane.group;
      found.push({ lane });
    }
    return found;
  }

  // ---- how it is drawn -----------------------------------------------------------------------------------

  function colours() {
    const style = getComputedStyle(root), cache = {};
    return (name) => (cache[name] ??= style.getPropertyValue(`--${name}`).trim());
  }

  /* Black or white, what can be read on a colour. */
  function readable(ground) {
    const parts = [1, 3, 5].map((at) => parseInt(ground.slice(at, at + 2), 16) / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] > 0.179 ? "#000000" : "#ffffff";
  }

  function barTraces(shown, colour) {
    const traces = {};
    for (const [style, [width, offset, shape]] of Object.entries(STYLES))
      traces[style] = {
        type: "bar", orientation: "h", base: [], x: [], y: [], text: [], hovertext: [], hoverinfo: "none", name: style,
        width, offset: offset - width / 2, textposition: "inside", insidetextanchor: "start", cliponaxis: true,
        insidetextfont: { color: shape ? colour("ink") : readable(colour(style)) },
        marker: {
          color: colour(style), line: { width: LINES[style] ?? 1, color: colour(style) },
          ...(shape ? { pattern: { shape, fgcolor: colour(style), bgcolor: colour("ground"), size: 7, solidity: .2 } } : {}),
          ...(["leader", "unclean", "isr"].includes(style) ? { line: { width: 1, color: colour("ground") } } : {}),
        },
      };
    /* What a bar says stands where the picture begins, if the bar began before. */
    const pieces = (bar) => {
      const ends = bar.label ? [bar.start, ...home.filter((at) => bar.start < at && at < bar.end), bar.end] : [bar.start, bar.end];
      return ends.slice(1).map((end, number) => [ends[number], end, ends[number] >= home[0] && end <= home[1] ? bar.label ?? "" : ""]);
    };
    shown.forEach(({ lane }, row) => {
      for (const bar of lane ? lane.bars : []) {
        if (bar.tp && hidden.tp.has(bar.tp)) continue;
        const trace = traces[bar.style], many = bar.number ?? 1;
        const when = bar.end > bar.start ? `${seconds(bar.start)} to ${seconds(bar.end)}` : seconds(bar.start);
        const what = many > 1 ? `${many.toLocaleString("en")} close together${bar.hover ? `: ${bar.hover}` : ""} (${bar.style})`
          : bar.hover || bar.style;
        for (const [start, end, label] of pieces(bar)) {
          trace.base.push(start);
          trace.x.push(end - start);
          trace.y.push(row);
          trace.text.push(safe(label));
          trace.hovertext.push(`<b>${safe(lane.title)}</b><br>${folded(what)}<br>${when}`);
        }
      }
    });
    return Object.values(traces).filter((trace) => trace.x.length);
  }

  function markTraces(place, colour) {
    const trace = (proof, excused) => {
      const marks = data.marks.filter((mark) =>
        mark.proof === proof && (mark.excused ?? false) === excused && shows(mark) && place.has(mark.node));
      const name = excused ? "excused" : proof ? "proof" : "on the way", tone = colour(excused ? "amber" : "bad");
      return {
        type: "scatter", mode: "markers", name, hoverinfo: "text", marks,
        x: marks.map((mark) => mark.at), y: marks.map((mark) => place.get(mark.node)),
        hovertext: marks.map((mark) => `<b>${safe(mark.promise)}: ${proof ? "proved by" : "led to it"}</b><br>` +
          `${folded(mark.text)}<br>${seconds(mark.at)}, ${safe(mark.event)}`),
        marker: {
          symbol: proof ? "diamond" : "circle", size: proof ? 13 : 9, color: proof ? tone : colour("ground"),
          line: { width: 2, color: proof ? colour("ground") : tone },
        },
      };
    };
    return [trace(false, false), trace(true, true), trace(true, false)].filter((each) => each.x.length);
  }

  function arrowTrace(place, colour) {
    const arrows = data.arrows.filter((arrow) => shows(arrow) && place.has(arrow.sender) && place.has(arrow.receiver));
    const x = [], y = [], size = [], text = [];
    for (const arrow of arrows) {
      x.push(arrow.sent, arrow.received, null);
      y.push(place.get(arrow.sender), place.get(arrow.receiver), null);
      size.push(0, 11, 0);
      text.push("", `<b>${safe(arrow.promise)}</b><br>${folded(arrow.text)}<br>${seconds(arrow.received)}`, "");
    }
    return arrows.length ? [{
      type: "scatter", mode: "lines+markers", name: "messages", x, y, hovertext: text, hoverinfo: "text",
      line: { color: colour("arrow"), width: 1.5 },
      marker: { symbol: "arrow", angleref: "previous", size, color: colour("arrow"), opacity: 1 },
    }] : [];
  }

  function lineTraces(colour) {
    const traces = [];
    charts = tps.filter((tp) => !hidden.tp.has(tp) && data.series.some((line) => line.tp === tp));
    charts.forEach((tp, number) => {
      for (const line of data.series.filter((each) => each.tp === tp && !hidden.node.has(each.node)))
        traces.push({
          type: "scatter", mode: "lines", name: `${line.node} ${line.what}`, yaxis: `y${number + 2}`,
          x: [...line.x, data.end], y: [...line.y, line.y[line.y.length - 1]],
          line: { shape: "hv", width: line.what === "log end" ? 2 : 1.5, dash: DASHES[line.what],
            color: lineColour(colour, line.node) },
          hovertemplate: `<b>${safe(tp)}</b><br>${safe(line.node)} ${line.what} %{y:,}<br>%{x:.3f} s<extra></extra>`,
        });
      const turns = data.turns.filter((turn) => turn.tp === tp && !hidden.node.has(turn.node));
      if (turns.length) traces.push({
        type: "scatter", mode: "markers", name: "turns", yaxis: `y${number + 2}`,
        x: turns.map((turn) => turn.at), y: turns.map((turn) => turn.y), hoverinfo: "text", cliponaxis: false,
        hovertext: turns.map((turn) => `<b>${safe(tp)}</b><br>${folded(turn.text)}<br>${seconds(turn.at)}`),
        marker: { size: 9, symbol: turns.map((turn) => TURNS[turn.kind][0]),
          color: turns.map((turn) => lineColour(colour, turn.node)), line: { width: 1, color: colour("ground") } },
      });
    });
    return traces;
  }

  function shapesAndLabels(shown, colour, height) {
    const shapes = [], labels = [];
    const upright = (at, line) => ({ type: "line", xref: "x", yref: "paper", x0: at, x1: at, y0: 0, y1: 1, line });
    for (const [x0, x1] of data.bands)
      shapes.push({ type: "rect", xref: "x", yref: "paper", x0, x1, y0: 0, y1: 1, layer: "below",
        fillcolor: colour("fault-band"), line: { width: 0 } });
    for (const [name, text, xanchor] of [["chaos", "time 0", "center"], ["healing", "chaos over", "right"]])
      if (name in data.phases) {
        const at = data.phases[name];
        shapes.push(upright(at, { color: colour("faint"), width: 1, dash: "dot" }));
        if (at >= range[0] && at <= range[1]) labels.push({ x: at, y: 1, yshift: 14, xref: "x", yref: "paper", text, xanchor, showarrow: false,
          yanchor: "bottom", font: { size: 11, color: colour("faint") } });
      }
    const times = new Map(), excused = new Set(data.breaks.filter((each) => each.excused).map((each) => each.promise));
    const tone = (ids) => colour(ids.every((id) => excused.has(id)) ? "warn" : "bad");
    for (const each of data.breaks.filter(shows)) times.set(each.at, [...(times.get(each.at) ?? []), each.promise]);
    // The first of each promise is a line through everything; the others are ticks, lest they hide what led to them.
    const met = new Set(), narrow = frame.clientWidth < 640, letter = narrow ? LETTER * 0.85 : LETTER;
    const pixels = Math.max(80, frame.clientWidth - (narrow ? 130 : 180)) / (range[1] - range[0]);
    let groups = [];
    const named = ({ ids }) => {
      const every = unique(ids).sort((a, b) => excused.has(a) - excused.has(b)), most = narrow ? 2 : 5;
      const shown = every.slice(0, most), broken = shown.filter((id) => !excused.has(id));
      const said = [broken.length ? `${broken.join(", ")} violated` : "", shown.filter((id) => excused.has(id)).join(", ")];
      return `${said.filter(Boolean).join("; ")}${every.length > most ? ` and ${every.length - most} more` : ""}`;
    };
    // What is named near the edge is named towards the middle.
    const anchor = (group, half) => (group.at + half > range[1] ? "right" : group.at - half < range[0] ? "left" : "center");
    const span = (group) => {
      const half = named(group).length * letter / 2 / pixels;
      return { left: [group.at, group.at + 2 * half], right: [group.at - 2 * half, group.at],
        center: [group.at - half, group.at + half] }[anchor(group, half)];
    };
    for (const [at, ids] of [...times].sort((a, b) => a[0] - b[0])) {
      const drawn = colour(ids.every((id) => excused.has(id)) ? "amber" : "bad");
      const line = upright(at, { color: drawn, width: 1.5 }), first = ids.filter((id) => !met.has(id));
      shapes.push(first.length ? line : { ...line, y0: 1, y1: 1 - 10 / height });
      if (first.length) groups.push({ at, ids: [...first] });
      for (const id of ids) met.add(id);
    }
    groups = groups.filter((group) => group.at >= range[0] && group.at <= range[1]);
    for (let number = 1; number < groups.length;) {
      if (span(groups[number - 1])[1] + 8 / pixels < span(groups[number])[0]) { number += 1; continue; }
      groups[number - 1].ids.push(...groups.splice(number, 1)[0].ids);
      number = Math.max(1, number - 1);
    }
    for (const group of groups)
      labels.push({ x: group.at, xanchor: anchor(group, named(group).length * letter / 2 / pixels), y: 1, yshift: 31, xref: "x",
        yref: "paper", showarrow: false, yanchor: "bottom", text: `<b>${safe(named(group))}</b>`,
        font: { size: narrow ? 10 : 12, color: tone(group.ids) } });
    return { shapes, labels };
  }

  // ---- numbers at the evidence ---------------------------------------------------------------------------

  /* Of a partition at which something broke: the first break, and when its replicas did what proves it or led to it. */
  function evidenceAt(tp) {
    const its = data.breaks.filter((each) => each.key === tp);
    const first = its.find((each) => !each.excused) ?? its.find((each) => each.promise.startsWith("records")) ?? its[0];
    if (!first) return null;
    const marks = data.marks.filter((mark) => mark.promise === first.promise && replicas(tp).includes(mark.node));
    const last = new Map(marks.map((mark) => [mark.node, mark.at]));
    return { at: first.at, nodes: last.size ? last : new Map(replicas(tp).map((node) => [node, first.at])) };
  }

  function offsetAt(tp, node, what, at) {
    const line = data.series.find((each) => each.tp === tp && each.node === node && each.what === what);
    const after = line ? line.x.findIndex((x) => x > at + EPSILON) : 0;
    return !line || after === 0 ? null : line.y[(after < 0 ? line.y.length : after) - 1];
  }

  /* What is said of a partition's lines: of its replicas at the evidence, then of turns, the nearest first. */
  function sayings(tp) {
    const found = evidenceAt(tp), narrow = frame.clientWidth < 640, wanted = [];
    for (const [node, at] of found ? found.nodes : []) {
      const mark = offsetAt(tp, node, "high watermark", at), end = offsetAt(tp, node, "log end", at);
      if (mark === null || end === null) continue;
      const text = `${node}: ${narrow ? "HW" : "high watermark"} ${mark.toLocaleString("en")}, log end ${end.toLocaleString("en")}`;
      wanted.push({ at, y: mark, node, text, needed: true });
    }
    const turns = data.turns.filter((turn) => turn.tp === tp).map((turn) =>
      ({ at: turn.at, y: turn.y, node: turn.node, text: `${turn.node} ${TURNS[turn.kind][1]}`, needed: false }));
    const near = found ? found.at : range[0];
    wanted.push(...turns.sort((a, b) => Math.abs(a.at - near) - Math.abs(b.at - near)));
    return wanted.filter((each) => !hidden.node.has(each.node) && each.at >= range[0] && each.at <= range[1]);
  }

  /* Each saying where it meets no other and, if that can be, no line. What finds no room is left to the mouse, unless it
     is needed. */
  function placed(tp, axis, [low, high], colour) {
    const width = plot._fullLayout?._size?.w ?? Math.max(80, frame.clientWidth - 180), taken = [], labels = [];
    const across = (at) => (at - range[0]) / (range[1] - range[0]) * width;
    const down = (y) => (high - y) / (high - low) * CHART;
    const drawn = segments(tp, across, down), narrow = frame.clientWidth < 640;
    const overlap = (a, b) => Math.max(0, Math.min(a.x1, b.x1) - Math.max(a.x0, b.x0)) * Math.max(0, Math.min(a.y1, b.y1) - Math.max(a.y0, b.y0));
    const outside = (box) => (Math.max(0, -box.x0) + Math.max(0, box.x1 - width)) * BOX + (Math.max(0, -box.y0) + Math.max(0, box.y1 - CHART)) * (box.x1 - box.x0);
    for (const { at, y, node, text, needed } of sayings(tp)) {
      const x = across(at), v = down(y), long = text.length * (narrow ? 0.92 : 1) * SMALL_LETTER;
      if (v < 0 || v > CHART) continue;
      const places = (x > width / 2 ? [-1, 1] : [1, -1]).flatMap((side) => [14, 30, 46, 62, 78, 94, 110].flatMap((rise) => [-rise, rise].map((ay) => {
        const tail = x + side * 18, box = { x0: side < 0 ? tail - long : tail, x1: side < 0 ? tail : tail + long,
          y0: v + ay - BOX / 2, y1: v + ay + BOX / 2 };
        const met = taken.reduce((sum, each) => sum + overlap(box, each), 0) + outside(box);
        const hides = drawn.filter((each) => each.x1 >= box.x0 && each.x0 <= box.x1 && each.y1 >= box.y0 && each.y0 <= box.y1).length;
        return { side, ay, box, met, hides, cost: 100 * met + 40 * Math.min(hides, 5) + rise };
      })));
      const best = places.reduce((one, other) => (other.cost < one.cost ? other : one));
      if ((best.met > 0 || narrow && best.hides) && !needed) continue;
      taken.push(best.box);
      labels.push({ x: at, y, xref: "x", yref: axis, text: safe(text), showarrow: true, arrowhead: needed ? 2 : 0, arrowsize: .8,
        arrowwidth: needed ? 1 : .6, ax: 18 * best.side, ay: best.ay, xanchor: best.side < 0 ? "right" : "left", borderpad: 0,
        arrowcolor: lineColour(colour, node), font: { size: narrow ? 10 : 11, color: lineColour(colour, node) }, bgcolor: colour("ground") });
    }
    return labels;
  }

  /* The lines of a partition in the time that is shown, as pieces that go across or down, in pixels. */
  function segments(tp, across, down) {
    const found = [];
    for (const line of data.series.filter((each) => each.tp === tp && !hidden.node.has(each.node)))
      line.x.forEach((start, number) => {
        const until = number + 1 < line.x.length ? line.x[number + 1] : data.end;
        if (until < range[0] || start > range[1]) return;
        const x0 = across(start), x1 = across(until), y = down(line.y[number]), next = down(line.y[number + 1] ?? line.y[number]);
        found.push({ x0, x1, y0: y, y1: y }, { x0: x1, x1, y0: Math.min(y, next), y1: Math.max(y, next) });
      });
    return found;
  }

  function layoutOf(shown, colour) {
    const lanes = Math.max(1, shown.length) * ROW, height = lanes + charts.length * (CHART + GAP) + 8;
    const { shapes, labels } = shapesAndLabels(shown, colour, height);
    const narrow = frame.clientWidth < 640, axis = { gridcolor: colour("grid"), zeroline: false, fixedrange: true };
    const layout = {
      height: height + TOP + 26, margin: { l: 10, r: narrow ? 8 : 16, t: TOP + 26, b: 8 }, barmode: "overlay", bargap: 0,
      paper_bgcolor: colour("ground"), plot_bgcolor: colour("ground"), showlegend: false, hovermode: "closest",
      dragmode: "zoom", shapes, annotations: labels, uirevision: "same",
      uniformtext: { mode: "hide", minsize: narrow ? 8 : 10 },
      font: { color: colour("ink"), size: narrow ? 10 : 12, family: getComputedStyle(document.body).fontFamily },
      hoverlabel: { align: "left", bgcolor: colour("raised"), bordercolor: colour("rule"), font: { color: colour("ink") } },
      xaxis: { side: "top", anchor: "free", position: 1, range, ticksuffix: " s", gridcolor: colour("grid"),
        zeroline: false, showspikes: true, spikemode: "across", spikesnap: "cursor", spikethickness: 1,
        spikecolor: colour("faint"), spikedash: "dot" },
      yaxis: { ...axis, domain: [1 - lanes / height, 1], range: [shown.length - 0.5, -0.5], showgrid: false, automargin: true,
        tickvals: shown.map((_, row) => row), ticks: "",
        ticktext: shown.map((row) => (row.heading ? `<b>${row.heading}</b>` : clip(narrow && row.lane.short || row.lane.title, narrow ? 24 : 40))) },
    };
    charts.forEach((tp, number) => {
      const top = 1 - (lanes + GAP + number * (CHART + GAP)) / height;
      layout[`yaxis${number + 2}`] = { ...axis, domain: [top - CHART / height, top], automargin: true, tickformat: ",d",
        nticks: 5, range: bounds(tp) };
      labels.push(...placed(tp, `y${number + 2}`, bounds(tp), colour));
      labels.push({ x: 0, y: top, xref: "paper", yref: "paper", xanchor: "left", yanchor: "bottom", showarrow: false,
        text: `<b>${safe(tp)}</b>: ${replicas(tp).filter((node) => !hidden.node.has(node)).map((node) =>
          `<span style="color:${lineColour(colour, node)}">━ ${safe(node)}</span>`).join(" ")}${narrow ? "" : `  solid: log end, dashed: high watermark${
          near && evidenceAt(tp) ? "; the offsets near the evidence (All shows all)" : ""}`}`, font: { size: narrow ? 10 : 12, color: colour("ink") } });
    });
    return layout;
  }

  const clip = (text, most) => safe(text.length > most ? `${text.slice(0, most - 1)}…` : text);

  /* The offsets of a partition within the time that is shown; at first, those about its evidence. */
  function bounds(tp) {
    const found = near ? evidenceAt(tp) : null;
    const times = found ? [found.at, ...found.nodes.values()] : [];
    const about = [Math.min(...times) - 0.01 * (home[1] - home[0]), Math.max(...times) + 0.01 * (home[1] - home[0])];
    return within(tp, found ? about : range, found ? 0.6 : 0.06);
  }

  function within(tp, [from, to], margin) {
    let low = Infinity, high = -Infinity;
    for (const line of data.series.filter((each) => each.tp === tp && !hidden.node.has(each.node)))
      line.x.forEach((start, number) => {
        const until = number + 1 < line.x.length ? line.x[number + 1] : data.end;
        if (until < from - EPSILON || start > to + EPSILON) return;
        low = Math.min(low, line.y[number]);
        high = Math.max(high, line.y[number]);
      });
    if (low > high) return [0, 1];
    const room = Math.max(1, (high - low) * margin);
    return [low < 0 ? low - room : Math.max(low - room, -0.1 * (high - low) - 1), high + room];
  }

  function draw() {
    const shown = rows(), colour = colours(), place = new Map();
    shown.forEach(({ lane }, row) => { if (lane && lane.group === "nodes") place.set(lane.node, row); });
    const lines = lineTraces(colour);
    const traces = [...barTraces(shown, colour), ...lines, ...arrowTrace(place, colour), ...markTraces(place, colour)];
    return Plotly.react(plot, traces, layoutOf(shown, colour),
      { responsive: true, displaylogo: false, doubleClick: false, displayModeBar: false });
  }

  // ---- where one looks -----------------------------------------------------------------------------------

  function look(from, to) {
    const width = Math.min(Math.max(to - from, 0.002), whole[1] - whole[0]);
    const begin = Math.min(Math.max(from, whole[0]), whole[1] - width);
    range = [begin, begin + width];
    near = false;
    const wanted = { "xaxis.range": [...range], annotations: layoutOf(rows(), colours()).annotations };
    charts.forEach((tp, number) => { wanted[`yaxis${number + 2}.range`] = bounds(tp); });
    frame.dataset.range = range.map((each) => each.toFixed(3)).join(" ");
    return Plotly.relayout(plot, wanted);
  }

  const middle = () => (range[0] + range[1]) / 2;
  const zoom = (factor, about = middle()) =>
    look(about - (about - range[0]) * factor, about + (range[1] - about) * factor);
  const move = (share) => look(range[0] + share * (range[1] - range[0]), range[1] + share * (range[1] - range[0]));

  async function goTo(at, text, mark) {
    const width = Math.min(range[1] - range[0], (home[1] - home[0]) / 8);
    said.textContent = text;
    await look(at - width / 2, at + width / 2);
    const curveNumber = plot.data.findIndex((trace) => trace.marks?.includes(mark));
    if (!mark || curveNumber < 0) { Plotly.Fx.unhover(plot); return; }
    Plotly.Fx.hover(plot, [{ curveNumber, pointNumber: plot.data[curveNumber].marks.indexOf(mark) }]);
    for (const spike of plot.querySelectorAll(".spikeline")) spike.remove();  // there is no cursor that it stands at
  }

  function step(by) {
    const every = [
      ...data.breaks.filter(shows).map((each) => [each.at, `${each.promise}${each.excused ? "" : " violated"} at ${seconds(each.at)}: ${each.sentence}`]),
      ...data.marks.filter(shows).map((each) => [each.at, `${seconds(each.at)}, for ${each.promise}: ${each.text}`, each]),
    ].sort((a, b) => a[0] - b[0]);
    if (!every.length) { said.textContent = "There is no evidence to go to."; return; }
    evidence = evidence < 0 && by < 0 ? every.length - 1 : (evidence + by + every.length) % every.length;
    const [at, text, mark] = every[evidence];
    goTo(at, `${evidence + 1} of ${every.length}: ${text}`, mark);
  }

  /* The words of a bar stand at the pointer: the library puts them at the bar's end, which may be far away. */
  function tell({ points: [point], event }) {
    const said = point?.data.type === "bar" ? point.data.hovertext[point.pointNumber] : "";
    tip.hidden = !said || !event;
    if (tip.hidden) return;
    tip.innerHTML = said;
    follow(event);
  }

  function follow({ clientX, clientY }) {
    const { offsetWidth: wide, offsetHeight: high } = tip, right = clientX + TIP, below = clientY + TIP;
    tip.style.left = `${Math.max(4, Math.min(right, document.documentElement.clientWidth - wide - 4))}px`;
    tip.style.top = `${below + high > window.innerHeight ? Math.max(4, clientY - high - TIP) : below}px`;
  }

  const actions = {
    in: () => zoom(0.5), out: () => zoom(2), all: () => look(...whole), next: () => step(1), previous: () => step(-1),
  };
  const KEYS = {
    "+": actions.in, "=": actions.in, "-": actions.out, "0": actions.all, n: actions.next, p: actions.previous,
    ArrowLeft: () => move(-0.15), ArrowRight: () => move(0.15), Home: () => look(whole[0], whole[0] + range[1] - range[0]),
    End: () => look(whole[1] - range[1] + range[0], whole[1]),
  };

  function listen() {
    document.getElementById("tools").addEventListener("click", (event) => {
      const action = actions[event.target.dataset?.do];
      if (action) action();
    });
    frame.addEventListener("keydown", (event) => {
      const action = event.ctrlKey || event.metaKey || event.altKey ? null : KEYS[event.key.length > 1 ? event.key : event.key.toLowerCase()];
      if (action) { event.preventDefault(); action(); }
    });
    for (const button of document.querySelectorAll("button[data-at]"))
      button.addEventListener("click", () => {
        document.getElementById("tools").scrollIntoView({ block: "start" });
        frame.focus({ preventScroll: true });
        goTo(Number(button.dataset.at), `${button.textContent} s: ${button.closest("li").querySelector(".text").textContent}`);
      });
    plot.on("plotly_doubleclick", actions.all);
    plot.on("plotly_hover", tell);
    plot.on("plotly_unhover", () => { tip.hidden = true; });
    frame.addEventListener("mouseleave", () => { tip.hidden = true; });
    frame.addEventListener("mousemove", (event) => { if (!tip.hidden) follow(event); });
    plot.on("plotly_relayout", (change) => {
      if ("xaxis.range[0]" in change) look(change["xaxis.range[0]"], change["xaxis.range[1]"]);
    });
    root.addEventListener("recoloured", draw);
    let width = frame.clientWidth;
    new ResizeObserver(() => {
      if ((width < 640) !== (frame.clientWidth < 640)) draw();
      width = frame.clientWidth;
    }).observe(frame);
  }

  async function unpack(id) {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent.trim()), (each) => each.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  try {
    const script = document.createElement("script");
    script.textContent = await unpack("library");
    document.head.append(script);
    plot.textContent = "";
    await draw();
    listen();
    frame.dataset.range = range.map((each) => each.toFixed(3)).join(" ");
    root.dataset.drawn = String(Math.round(performance.now()));
  } catch (error) {
    plot.textContent = `The timeline could not be drawn (${error}). It needs a browser of 2023 or later; the rest of the page does not.`;
  }
})();
