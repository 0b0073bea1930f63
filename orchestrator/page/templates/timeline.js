/* Draws the timeline of a run. What is drawn was chosen where the page was made; this lays it out, and answers keys. */
(async () => {
  "use strict";
  const ROW = 24, CHART = 150, GAP = 34, TOP = 48, CHARTS_FIRST = 4, LABEL = 80, EPSILON = 1e-9;
  const data = JSON.parse(document.getElementById("timeline-data").textContent);
  const plot = document.getElementById("plot"), frame = document.getElementById("timeline");
  const said = document.getElementById("said"), root = document.documentElement;
  const METADATA = "__cluster_metadata-0";
  // Style of a bar -> its height, its place below the middle of the lane, and whether it has a pattern.
  const STYLES = {
    up: [0.84, 0], down: [0.84, 0, "x"], leads: [0.84, 0], votes: [0.84, 0], leader: [0.8, 0], unclean: [0.8, 0], isr: [0.8, 0],
    out: [0.8, 0], fault: [0.7, 0], request: [0.7, 0], waits: [0.16, 0], ok: [0.46, 0], unknown: [0.56, 0],
    open: [0.56, 0], fail: [0.56, 0], paused: [0.84, 0, "/"], cut: [0.2, 0.34],
  };
  // What has no length, as an operation's return, is as wide as its line.
  const LINES = { up: 0, out: 0, waits: 0, fail: 2, unknown: 2 };
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
  const whole = [data.begin, Math.max(data.end, data.begin + 0.001)];
  const home = [Math.min(data.opens, data.end), whole[1]];
  let range = [...home], evidence = -1, charts = [];
  const replicas = (tp) => unique(data.series.filter((line) => line.tp === tp).map((line) => line.node)).sort();
  const lineColour = (colour, tp, node) => colour(`line-${replicas(tp).indexOf(node) % 6 + 1}`);

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

  function barTraces(shown, colour) {
    const traces = {};
    for (const [style, [width, offset, shape]] of Object.entries(STYLES))
      traces[style] = {
        type: "bar", orientation: "h", base: [], x: [], y: [], text: [], hovertext: [], hoverinfo: "text", name: style,
        width, offset: offset - width / 2, textposition: "inside", insidetextanchor: "start", cliponaxis: true,
        insidetextfont: { color: colour("ink") },
        marker: {
          color: colour(style), line: { width: LINES[style] ?? 1, color: colour(style) },
          ...(shape ? { pattern: { shape, fgcolor: colour(style), bgcolor: colour("ground"), size: 7, solidity: .2 } } : {}),
          ...(["leader", "unclean", "isr"].includes(style) ? { line: { width: 1, color: colour("ground") } } : {}),
        },
      };
    shown.forEach(({ lane }, row) => {
      for (const bar of lane ? lane.bars : []) {
        if (bar.tp && hidden.tp.has(bar.tp)) continue;
        const trace = traces[bar.style], many = bar.number ?? 1;
        const when = bar.end > bar.start ? `${seconds(bar.start)} to ${seconds(bar.end)}` : seconds(bar.start);
        const what = many > 1 ? `${many.toLocaleString("en")} close together${bar.hover ? `: ${bar.hover}` : ""} (${bar.style})`
          : bar.hover || bar.style;
        trace.base.push(bar.start);
        trace.x.push(bar.end - bar.start);
        trace.y.push(row);
        trace.text.push(safe(bar.label ?? ""));
        trace.hovertext.push(`<b>${safe(lane.title)}</b><br>${folded(what)}<br>${when}`);
      }
    });
    return Object.values(traces).filter((trace) => trace.x.length);
  }

  function markTraces(place, colour) {
    const trace = (proof) => {
      const marks = data.marks.filter((mark) => mark.proof === proof && shows(mark) && place.has(mark.node));
      return {
        type: "scatter", mode: "markers", name: proof ? "proof" : "on the way", hoverinfo: "text", marks,
        x: marks.map((mark) => mark.at), y: marks.map((mark) => place.get(mark.node)),
        hovertext: marks.map((mark) => `<b>${safe(mark.promise)}: ${proof ? "proved by" : "on the way to it"}</b><br>` +
          `${folded(mark.text)}<br>${seconds(mark.at)}, ${safe(mark.event)}`),
        marker: {
          symbol: proof ? "diamond" : "circle", size: proof ? 13 : 9, color: proof ? colour("bad") : colour("ground"),
          line: { width: 2, color: proof ? colour("ground") : colour("bad") },
        },
      };
    };
    return [trace(false), trace(true)].filter((each) => each.x.length);
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
            color: lineColour(colour, tp, line.node) },
          hovertemplate: `<b>${safe(tp)}</b><br>${safe(line.node)} ${line.what} %{y:,}<br>%{x:.3f} s<extra></extra>`,
        });
    });
    return traces;
  }

  function shapesAndLabels(shown, colour, height) {
    const shapes = [], labels = [];
    const upright = (at, line) => ({ type: "line", xref: "x", yref: "paper", x0: at, x1: at, y0: 0, y1: 1, line });
    for (const { lane } of shown.filter((row) => row.lane && row.lane.group === "faults").slice(0, 60))
      for (const bar of lane.bars.filter((each) => each.style === "fault").slice(0, 60))
        shapes.push({ type: "rect", xref: "x", yref: "paper", x0: bar.start, x1: bar.end, y0: 0, y1: 1, layer: "below",
          fillcolor: colour("fault-band"), line: { width: 0 } });
    for (const [name, text, xanchor] of [["chaos", "time 0", "center"], ["healing", "chaos over", "right"]])
      if (name in data.phases) {
        const at = data.phases[name];
        shapes.push(upright(at, { color: colour("faint"), width: 1, dash: "dot" }));
        labels.push({ x: at, y: 1, yshift: 14, xref: "x", yref: "paper", text, xanchor, showarrow: false,
          yanchor: "bottom", font: { size: 11, color: colour("faint") } });
      }
    const times = new Map();
    for (const each of data.breaks.filter(shows)) times.set(each.at, [...(times.get(each.at) ?? []), each.promise]);
    // The first of each promise is a line through everything; the others are ticks, lest they hide what led to them.
    const met = new Set(), groups = [], near = (home[1] - home[0]) * LABEL / Math.max(LABEL, frame.clientWidth - 180);
    for (const [at, ids] of [...times].sort((a, b) => a[0] - b[0])) {
      const line = upright(at, { color: colour("bad"), width: 1.5 }), first = ids.filter((id) => !met.has(id));
      shapes.push(first.length ? line : { ...line, y0: 1, y1: 1 - 10 / height });
      if (!first.length) continue;
      if (groups.length && at - groups.at(-1).at < near) groups.at(-1).ids.push(...first);
      else groups.push({ at, ids: [...first] });
      for (const id of ids) met.add(id);
    }
    for (const { at, ids } of groups) {
      const named = unique(ids), more = named.length > 5 ? ` and ${named.length - 5} more` : "";
      labels.push({ x: at, y: 1, yshift: 28, xref: "x", yref: "paper", showarrow: false, yanchor: "bottom",
        text: `<b>${safe(named.slice(0, 5).join(", "))}${more}</b>`, font: { size: 12, color: colour("bad") } });
    }
    return { shapes, labels };
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
        ticktext: shown.map((row) => (row.heading ? `<b>${row.heading}</b>` : clip(row.lane.title, narrow ? 16 : 40))) },
    };
    charts.forEach((tp, number) => {
      const top = 1 - (lanes + GAP + number * (CHART + GAP)) / height;
      layout[`yaxis${number + 2}`] = { ...axis, domain: [top - CHART / height, top], automargin: true, tickformat: ",d",
        nticks: 5, range: bounds(tp) };
      labels.push({ x: 0, y: top, xref: "paper", yref: "paper", xanchor: "left", yanchor: "bottom", showarrow: false,
        text: `<b>${safe(tp)}</b>: ${replicas(tp).filter((node) => !hidden.node.has(node)).map((node) =>
          `<span style="color:${lineColour(colour, tp, node)}">━ ${safe(node)}</span>`).join(" ")}`, font: { size: narrow ? 10 : 12, color: colour("ink") } });
    });
    return layout;
  }

  const clip = (text, most) => safe(text.length > most ? `${text.slice(0, most - 1)}…` : text);

  /* The offsets of a partition within the time that is shown. */
  function bounds(tp) {
    let low = Infinity, high = -Infinity;
    for (const line of data.series.filter((each) => each.tp === tp && !hidden.node.has(each.node)))
      line.x.forEach((from, number) => {
        const until = number + 1 < line.x.length ? line.x[number + 1] : data.end;
        if (until < range[0] - EPSILON || from > range[1] + EPSILON) return;
        low = Math.min(low, line.y[number]);
        high = Math.max(high, line.y[number]);
      });
    if (low > high) return [0, 1];
    const room = Math.max(1, (high - low) * 0.06);
    return [low - room, high + room];
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
    const wanted = { "xaxis.range": [...range] };
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
      ...data.breaks.filter(shows).map((each) => [each.at, `${each.promise} violated at ${seconds(each.at)}: ${each.sentence}`]),
      ...data.marks.filter(shows).map((each) => [each.at, `${seconds(each.at)}, for ${each.promise}: ${each.text}`, each]),
    ].sort((a, b) => a[0] - b[0]);
    if (!every.length) { said.textContent = "There is no evidence to go to."; return; }
    evidence = evidence < 0 && by < 0 ? every.length - 1 : (evidence + by + every.length) % every.length;
    const [at, text, mark] = every[evidence];
    goTo(at, `${evidence + 1} of ${every.length}: ${text}`, mark);
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
