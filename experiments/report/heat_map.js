// A grid of coloured cells, with its colour scale below.

// specOf() gives {title, columns, rows, width (of a column on the x axis), span (of the x axis), value(column, row),
// detail(column, row), columnName, rowName, columnLabel(column), rowLabel(row), colour: {scale: "log" | "linear", domain,
// label}, xTicks (positions, or null for round ones), xText(position), caption}, or {empty: why}. Row 0 is at the bottom.
function heatMap(host, report, id, controls, specOf) {
  const parts = chartFigure(host, id, controls, downloadButtons(id.replace(/-/g, " "),
    () => saveFile(`${fileName(report, id)}.csv`, "text/csv", csvText(cellRows(spec))),
    () => saveFile(`${fileName(report, id)}.svg`, "image/svg+xml", svgText(parts.body.querySelector("svg"), spec.title, []))));
  let spec = null;
  let cursor = null;  // {column, row}, while it is driven by keys
  const draw = keepDrawn(parts.figure, () => {
    spec = specOf();
    parts.title.textContent = spec.title || "";
    parts.caption.textContent = spec.caption || "";
    parts.figure.querySelector(".chart-tools").hidden = spec.empty !== undefined;
    if (spec.empty !== undefined) {
      parts.body.replaceChildren(note(spec.empty));
      return;
    }
    const width = Math.max(parts.body.clientWidth, 200);
    const margin = {top: 8, right: 16, bottom: 84, left: 48};
    const cell = Math.min(26, Math.max(4, Math.floor(260 / spec.rows)));
    const inner = {width: width - margin.left - margin.right, height: Math.max(cell * spec.rows, 60)};
    const height = inner.height + margin.top + margin.bottom;
    const colour = colourScale(spec.colour);
    const x = d3.scaleLinear().domain([0, spec.span]).range([margin.left, margin.left + inner.width]);
    const y = d3.scaleLinear().domain([0, spec.rows]).range([margin.top + inner.height, margin.top]);

    const hadFocus = parts.body.contains(document.activeElement);
    const svg = d3.create("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("tabindex", 0).attr("role", "group")
      .attr("aria-roledescription", "heat map").attr("aria-label", `${spec.title}. Arrow keys read the cells.`);
    svg.append("rect").attr("class", "frame").attr("x", margin.left).attr("y", margin.top).attr("width", inner.width).attr("height", inner.height);
    svg.append("image").attr("href", picture(spec, colour)).attr("x", margin.left).attr("y", margin.top)
      .attr("width", x(spec.columns * spec.width) - margin.left).attr("height", inner.height).attr("preserveAspectRatio", "none");
    const everyRow = Math.ceil(spec.rows * 13 / inner.height);
    const left = d3.axisLeft(y).tickValues(d3.range(0, spec.rows, everyRow).map((row) => row + 0.5))
      .tickFormat((at) => spec.rowLabel(Math.floor(at))).tickSize(0).tickPadding(6);
    svg.append("g").attr("class", "axis").attr("transform", `translate(${margin.left},0)`).call(left).call((g) => g.select(".domain").remove());
    const bottom = d3.axisBottom(x).ticks(Math.max(2, Math.floor(inner.width / 80))).tickFormat(spec.xText).tickSize(4).tickPadding(4);
    if (spec.xTicks) bottom.tickValues(spec.xTicks.filter((_, i) => i % Math.ceil(spec.xTicks.length * 30 / inner.width) === 0));
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${margin.top + inner.height})`).call(bottom)
      .call((g) => g.select(".domain").remove());
    svg.append("text").attr("class", "label").attr("x", margin.left + inner.width / 2).attr("y", margin.top + inner.height + 34)
      .attr("text-anchor", "middle").text(spec.columnName);
    svg.append("text").attr("class", "label").attr("transform", "rotate(-90)").attr("x", -(margin.top + inner.height / 2)).attr("y", 12)
      .attr("text-anchor", "middle").text(spec.rowName);
    drawColourBar(svg, spec.colour, margin.left, margin.top + inner.height + 46, Math.min(inner.width - 130, 260));

    const box = svg.append("rect").attr("class", "cell").attr("visibility", "hidden");
    const show = (column, row, clientX, clientY, spoken) => {
      const edges = [x(column * spec.width), x((column + 1) * spec.width)];
      box.attr("visibility", "visible").attr("x", edges[0]).attr("y", y(row + 1)).attr("width", edges[1] - edges[0])
        .attr("height", y(row) - y(row + 1));
      showTooltip(clientX, clientY, `${spec.columnName} ${spec.columnLabel(column)}, ${spec.rowName} ${spec.rowLabel(row)}`,
        [{name: spec.colour.label, value: spec.detail(column, row)}], spoken);
    };
    const hide = () => {
      cursor = null;
      box.attr("visibility", "hidden");
      hideTooltip();
    };
    svg.on("pointermove", () => {
      const frame = svg.node().getBoundingClientRect();
      const column = Math.floor(x.invert((d3.event.clientX - frame.left) * width / frame.width) / spec.width);
      const row = Math.floor(y.invert((d3.event.clientY - frame.top) * height / frame.height));
      if (column < 0 || column >= spec.columns || row < 0 || row >= spec.rows) hide();
      else show(column, row, d3.event.clientX, d3.event.clientY, false);
    }).on("pointerleave", hide).on("blur", hide).on("keydown", () => {
      const move = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1], Home: [-Infinity, 0], End: [Infinity, 0]}[d3.event.key];
      if (d3.event.key === "Escape") hide();
      if (!move) return;
      d3.event.preventDefault();
      const bound = (value, count) => Math.min(Math.max(value, 0), count - 1);
      cursor = cursor === null ? {column: 0, row: 0} : {column: bound(cursor.column + move[0], spec.columns), row: bound(cursor.row + move[1], spec.rows)};
      const frame = svg.node().getBoundingClientRect();
      show(cursor.column, cursor.row, frame.left + x((cursor.column + 0.5) * spec.width) * frame.width / width,
        frame.top + y(cursor.row + 0.5) * frame.height / height, true);
    });
    parts.body.replaceChildren(svg.node());
    if (hadFocus) svg.node().focus({preventScroll: true});
  });

  draw();
  return draw;
}

function cellRows(spec) {
  const rows = [[spec.columnName, spec.rowName, spec.colour.label]];
  for (let c = 0; c < spec.columns; ++c) {
    for (let r = 0; r < spec.rows; ++r) rows.push([spec.columnLabel(c), spec.rowLabel(r), spec.value(c, r)]);
  }
  return rows;
}

const kNotFiniteColour = "#e0115f";  // in no part of viridis

function colourScale({scale, domain}) {
  const make = scale === "log" ? d3.scaleLog() : d3.scaleLinear();
  const position = make.domain(domain).range([0, 1]).clamp(true);
  return (value) => {
    if (Number.isNaN(value)) return null;
    if (value === Infinity) return kNotFiniteColour;
    return d3.interpolateViridis(scale === "log" && value <= 0 ? 0 : position(value));
  };
}

// One pixel a cell, as a data URL.
function picture(spec, colour) {
  const canvas = element("canvas", {width: spec.columns, height: spec.rows});
  const pen = canvas.getContext("2d");
  for (let column = 0; column < spec.columns; ++column) {
    for (let row = 0; row < spec.rows; ++row) {
      const fill = colour(spec.value(column, row));
      if (fill === null) continue;
      pen.fillStyle = fill;
      pen.fillRect(column, spec.rows - 1 - row, 1, 1);
    }
  }
  return canvas.toDataURL();
}

function drawColourBar(svg, {scale, domain, label}, left, top, width) {
  const canvas = element("canvas", {width: 128, height: 1});
  const pen = canvas.getContext("2d");
  for (let i = 0; i < 128; ++i) {
    pen.fillStyle = d3.interpolateViridis(i / 127);
    pen.fillRect(i, 0, 1, 1);
  }
  svg.append("image").attr("href", canvas.toDataURL()).attr("x", left).attr("y", top).attr("width", width).attr("height", 8)
    .attr("preserveAspectRatio", "none");
  const x = scaleOf(scale, domain, [left, left + width]);
  const axis = d3.axisBottom(x).tickSize(3).tickFormat(tickFormat(domain));
  if (scale === "log") axis.tickValues(powers(domain).filter((_, i, all) => i % Math.ceil(all.length * 44 / width) === 0));
  else axis.ticks(Math.max(2, Math.floor(width / 60)));
  svg.append("g").attr("class", "axis").attr("transform", `translate(0,${top + 8})`).call(axis).call((g) => g.select(".domain").remove());
  svg.append("text").attr("class", "label").attr("x", left + width + 10).attr("y", top + 8).text(label);
}

// The ends of the finite, positive values of several arrays, within four decades of their median: a divergence must not
// take all colours. `cut` says that there is more.
function logDomain(arrays) {
  const kReach = 1e4;
  const all = arrays.flatMap((values) => Array.from(values).filter((v) => v > 0 && v !== Infinity)).sort(d3.ascending);
  if (all.length === 0) return {domain: [0.1, 1], cut: false};
  const [least, greatest, middle] = [all[0], all[all.length - 1], d3.quantile(all, 0.5)];
  const [low, high] = [Math.max(least, middle / kReach), Math.min(greatest, middle * kReach)];
  return {domain: low === high ? [low / 2, high * 2] : [low, high], cut: low > least || high < greatest};
}

function linearDomain(arrays) {
  let low = Infinity;
  let high = -Infinity;
  for (const values of arrays) {
    for (const value of values) {
      if (!Number.isFinite(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (low > high) return [0, 1];
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

// Two maps side by side, each of a run that is chosen above it; the second may stay empty. `spec(run, both)` says what a
// map shows, `both` being the runs that share its scale. Returns what draws them.
function heatMapPair(row, report, name, options, shown, redraw, spec) {
  return [0, 1].map((side) => {
    const runs = side === 1 ? [{value: "none", label: "none"}, ...options] : options;
    const control = select(side === 0 ? "run" : "beside", runs, shown[side], (value) => {
      shown[side] = value === "none" ? value : Number(value);
      redraw();
    });
    return heatMap(row, report, `${name}-${side === 0 ? "a" : "b"}`, [control],
      () => spec(shown[side], shown.filter((i) => i !== "none")));
  });
}
