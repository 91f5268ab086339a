// Lines with bands over a common x axis.

let chartCount = 0;

// A figure with a title and buttons, controls, the picture and a caption.
function chartFigure(host, id, controls, tools) {
  const figure = element("figure", {class: "chart", id: `chart-${id}`});
  const parts = {figure, title: element("h3"), body: element("div"), caption: element("figcaption")};
  figure.append(element("div", {class: "chart-head"}, parts.title, tools));
  if (controls.length > 0) figure.append(element("div", {class: "controls"}, ...controls));
  figure.append(parts.body, parts.caption);
  host.append(figure);
  return parts;
}

// Draws now and when the figure's width changes.
function keepDrawn(figure, draw) {
  drawings.add(draw);
  let width = 0;
  new ResizeObserver(() => {
    if (figure.clientWidth === width) return;
    width = figure.clientWidth;
    draw();
  }).observe(figure);
  return draw;
}

function axisTicks(scale, spec, width) {
  if (spec.ticks && spec.ticks.length * 34 <= width) return spec.ticks;
  if (spec.scale === "log2") {
    const [low, high] = scale.domain();
    return d3.range(Math.ceil(Math.log2(low)), Math.log2(high) + 1e-9).map((power) => 2 ** power);
  }
  return null;
}

function scaleOf(kind, domain, range) {
  if (kind === "log2") return d3.scaleLog().base(2).domain(domain).range(range);
  if (kind === "log") return d3.scaleLog().domain(domain).range(range);
  return d3.scaleLinear().domain(domain).range(range);
}

// From the least to the greatest of what is drawn, with room. On a linear axis a few values that dwarf all others and
// where the lines begin (a divergence) are cut off: `cut` says so.
function valueDomain(series, log) {
  const shown = series.flatMap((s) => s.points);
  const all = shown.flatMap((p) => [p.y, p.low, p.high]).filter((v) => Number.isFinite(v) && (!log || v > 0));
  if (all.length === 0) return {domain: log ? [0.1, 1] : [0, 1], cut: false};
  let [low, high] = d3.extent(all);
  let cut = false;
  if (log) return {domain: low === high ? [low / 2, high * 2] : [low / 1.1, high * 1.1], cut};
  const sorted = shown.map((p) => p.y).filter(Number.isFinite).sort(d3.ascending);
  const usual = d3.quantile(sorted, 0.95);
  const begin = d3.max(series, (s) => d3.max(s.points.slice(0, 1), (p) => d3.max([p.y, p.high].filter(Number.isFinite))));
  const kDwarfed = 6;
  const bound = d3.max([usual, begin]) + 0.4 * (d3.max([usual, begin]) - low);
  if (usual > low && high - low > kDwarfed * (bound - low)) {
    high = bound;
    cut = true;
  }
  const room = high > low ? (high - low) * 0.05 : Math.abs(high) * 0.1 || 0.1;
  return {domain: [low - room, high + room], cut};
}

// specOf() gives {title, x: {name, label, scale, ticks, format}, y: {unit, log}, series: [{name, variant, thin, points}],
// dots, marks: [{x, label}], events: [{x, variant, text}], caption}; points: [{x, y, low, high, n}].
function lineChart(host, report, id, controls, specOf) {
  const titleText = () => (spec.y.unit ? `${spec.title} (${spec.y.unit})` : spec.title);
  const parts = chartFigure(host, id, controls, downloadButtons(specOf().title,
    () => saveFile(`${fileName(report, id)}.csv`, "text/csv", csvText(lineRows(spec))),
    () => saveFile(`${fileName(report, id)}.svg`, "image/svg+xml", svgText(parts.body.querySelector("svg"), titleText(), entries()))));
  const clip = `clip-${++chartCount}`;
  let spec = null;
  let cursor = null;  // index into xs, while it is driven by keys
  const draw = keepDrawn(parts.figure, () => {
    spec = specOf();
    parts.title.replaceChildren(spec.title, element("span", {class: "faint"}, spec.y.unit ? ` ${spec.y.unit}` : ""));
    const width = Math.max(parts.body.clientWidth, 200);
    const height = Math.round(Math.min(360, Math.max(230, width * 0.52)));
    const margin = {top: 14, right: 16, bottom: 46, left: 48};
    const series = spec.series.filter((s) => !hiddenVariants.has(s.variant));
    const drawn = (p) => Number.isFinite(p.y) && (!spec.y.log || p.y > 0);
    const xs = Array.from(new Set(series.flatMap((s) => s.points.filter(drawn).map((p) => p.x)))).sort(d3.ascending);
    const ends = [...xs, ...(spec.x.ticks || [])];
    let [first, last] = ends.length ? d3.extent(ends) : [1, 2];
    if (first === last) [first, last] = spec.x.scale === "linear" ? [first - 1, last + 1] : [first / 2, last * 2];
    const x = scaleOf(spec.x.scale, [first, last], [margin.left, width - margin.right]);
    const {domain, cut} = valueDomain(series, spec.y.log);
    const y = scaleOf(spec.y.log ? "log" : "linear", domain, [height - margin.bottom, margin.top]);

    const hadFocus = parts.body.contains(document.activeElement);
    const svg = d3.create("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("tabindex", 0).attr("role", "group")
      .attr("aria-roledescription", "chart").attr("aria-label", `${spec.title}. Left and right arrow keys read the values.`);
    svg.append("clipPath").attr("id", clip).append("rect").attr("x", margin.left).attr("y", margin.top - 6)
      .attr("width", width - margin.left - margin.right + 6).attr("height", height - margin.top - margin.bottom + 8);
    const yTicks = spec.y.log && domain[1] / domain[0] < 8 ? d3.scaleLinear().domain(domain).ticks(5) : null;
    const left = d3.axisLeft(y).ticks(5).tickSize(-(width - margin.left - margin.right)).tickPadding(8).tickFormat(tickFormat(domain));
    if (yTicks) left.tickValues(yTicks);
    else if (spec.y.log) left.tickValues(powers(domain));
    svg.append("g").attr("class", "axis").attr("transform", `translate(${margin.left},0)`).call(left).call((g) => g.select(".domain").remove());
    const bottom = d3.axisBottom(x).ticks(Math.max(2, Math.floor(width / 90))).tickSizeOuter(0).tickPadding(7)
      .tickFormat(spec.x.format || tickFormat([first, last]));
    const ticks = axisTicks(x, spec.x, width - margin.left - margin.right);
    if (ticks) bottom.tickValues(ticks);
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${height - margin.bottom})`).call(bottom);
    svg.append("text").attr("class", "label").attr("x", (margin.left + width - margin.right) / 2).attr("y", height - 8)
      .attr("text-anchor", "middle").text(spec.x.label);
    for (const mark of (spec.marks || []).filter((m) => m.x >= first && m.x <= last)) {
      svg.append("line").attr("class", "mark").attr("x1", x(mark.x)).attr("x2", x(mark.x)).attr("y1", margin.top).attr("y2", height - margin.bottom);
      const end = x(mark.x) > width * 0.65;
      svg.append("text").attr("class", "label").attr("x", x(mark.x) + (end ? -6 : 6)).attr("y", margin.top + 8)
        .attr("text-anchor", end ? "end" : "start").text(mark.label);
    }
    const plot = svg.append("g").attr("clip-path", `url(#${clip})`);
    const area = d3.area().defined((p) => drawn(p) && Number.isFinite(p.low) && Number.isFinite(p.high)).x((p) => x(p.x))
      .y0((p) => y(Math.max(p.low, spec.y.log ? domain[0] / 10 : p.low))).y1((p) => y(p.high));
    const line = d3.line().defined(drawn).x((p) => x(p.x)).y((p) => y(p.y));
    for (const s of series) {
      if (s.points.some((p) => p.high > p.low)) {
        plot.append("path").attr("class", `band ${variantClass(s.variant)}`).attr("data-variant", s.variant).attr("d", area(s.points));
      }
    }
    for (const s of series) {
      plot.append("path").attr("class", `line ${variantClass(s.variant)}${s.thin ? " thin" : ""}`).attr("data-variant", s.variant)
        .attr("d", line(s.points) || "M0,0");
      const alone = s.points.filter((p, i) => drawn(p) && (spec.dots || !(drawn(s.points[i - 1] || {}) || drawn(s.points[i + 1] || {}))));
      for (const p of alone) {
        plot.append("circle").attr("class", `dot ${variantClass(s.variant)}`).attr("data-variant", s.variant).attr("cx", x(p.x)).attr("cy", y(p.y))
          .attr("r", 3.5);
      }
    }
    for (const event of (spec.events || []).filter((e) => !hiddenVariants.has(e.variant) && e.x >= first && e.x <= last)) {
      const at = [x(event.x), margin.top + 5];
      svg.append("path").attr("class", `cross ${variantClass(event.variant)}`)
        .attr("d", `M${at[0] - 4},${at[1] - 4}l8,8m0,-8l-8,8`).style("fill", "none").append("title").text(event.text);
    }
    const pointer = svg.append("g").attr("visibility", "hidden");
    pointer.append("line").attr("class", "cursor").attr("y1", margin.top).attr("y2", height - margin.bottom);
    const show = (index, clientX, clientY, spoken) => {
      const at = xs[index];
      pointer.attr("visibility", "visible").select("line").attr("x1", x(at)).attr("x2", x(at));
      const rows = [];
      pointer.selectAll("circle").remove();
      for (const s of series) {
        const p = s.points.find((q) => q.x === at);
        if (!p || !drawn(p)) continue;
        rows.push({variant: s.variant, name: s.name, value: valueText(p), y: p.y});
        pointer.append("circle").attr("class", `dot ${variantClass(s.variant)}`).attr("cx", x(at)).attr("cy", y(p.y)).attr("r", 3.5);
      }
      rows.sort((a, b) => b.y - a.y);
      showTooltip(clientX, clientY, `${spec.x.name} ${(spec.x.format || formatNumber)(at)}`, rows, spoken);
    };
    const hide = () => {
      cursor = null;
      pointer.attr("visibility", "hidden");
      hideTooltip();
    };
    const byKeys = () => {
      const box = svg.node().getBoundingClientRect();
      show(cursor, box.left + x(xs[cursor]) * box.width / width, box.top + box.height / 3, true);
    };
    svg.on("pointermove", () => {
      if (xs.length === 0) return;
      const box = svg.node().getBoundingClientRect();
      const at = (d3.event.clientX - box.left) * width / box.width;
      show(d3.scan(xs, (a, b) => Math.abs(x(a) - at) - Math.abs(x(b) - at)), d3.event.clientX, d3.event.clientY, false);
    }).on("pointerleave", hide).on("blur", hide).on("keydown", () => {
      const step = {ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity}[d3.event.key];
      if (d3.event.key === "Escape") hide();
      if (step === undefined || xs.length === 0) return;
      d3.event.preventDefault();
      cursor = Math.min(Math.max(cursor === null ? (step > 0 ? 0 : xs.length - 1) : cursor + step, 0), xs.length - 1);
      byKeys();
    });
    parts.body.replaceChildren(svg.node());
    if (hadFocus) svg.node().focus({preventScroll: true});
    parts.caption.textContent = (spec.caption || "") + (cut ? " Values far above the others are cut off." : "");
  });

  // The legend of the picture as a file.
  function entries() {
    return report.variants.map((variant, index) => ({variant, index})).filter(({index}) => !hiddenVariants.has(index)).map(({variant, index}) => {
      const style = getComputedStyle(parts.body.querySelector(`path.line[data-variant="${index}"]`) || document.body);
      return {name: variant.name, colour: style.stroke, dash: style.strokeDasharray};
    });
  }
  draw();
  return draw;
}

function lineRows(spec) {
  const rows = [[spec.series.some((s) => s.thin) ? "run" : "variant", spec.x.name, spec.title, "low", "high", "n"]];
  for (const s of spec.series) {
    for (const p of s.points) rows.push([s.name, p.x, p.y, p.low, p.high, p.n]);
  }
  return rows;
}

function valueText(p) {
  const band = Number.isFinite(p.low) && Number.isFinite(p.high) && p.high > p.low ? ` (${formatNumber(p.low)} to ${formatNumber(p.high)})` : "";
  return formatNumber(p.y) + band + (p.n > 1 ? `, n = ${p.n}` : "");
}

// All ticks of an axis are written in one way.
function tickFormat(domain) {
  const size = Math.max(...domain.map(Math.abs));
  const least = Math.min(...domain.map(Math.abs));
  if (size < 0.01 || size >= 1e9 || (least > 0 && least < 1e-3 && size / least > 100)) {
    return (v) => (v === 0 ? "0" : v === 1 ? "1" : d3.format(".2~e")(v).replace("e+", "e"));
  }
  if (size >= 1e4) return (v) => (Math.abs(v) < 1 && v !== 0 ? String(v) : d3.format("~s")(v));
  return (v) => d3.format("~r")(Number(v.toPrecision(6)));
}

// Powers of ten between the ends of a domain, thinned to at most seven; with 2 and 5 between where there are few.
function powers([low, high]) {
  const from = Math.ceil(Math.log10(low) - 1e-9);
  const to = Math.floor(Math.log10(high) + 1e-9);
  const step = Math.max(1, Math.ceil((to - from + 1) / 7));
  const tens = d3.range(from, to + 1, step).map((power) => 10 ** power);
  if (tens.length >= 3) return tens;
  return d3.range(from - 1, to + 1).flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** power)).filter((v) => v >= low && v <= high);
}
