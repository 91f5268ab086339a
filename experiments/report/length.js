// Loss or accuracy against the evaluated length, and loss by position.

const kBands = {
  sd: {label: "± standard deviation", low: (c) => c.mean - c.sd, high: (c) => c.mean + c.sd, text: "mean ± standard deviation over seeds"},
  interval: {label: "95 % t interval", low: (c) => c.low, high: (c) => c.high, text: "95 % t interval of the mean over seeds"},
  range: {label: "least to greatest", low: (c) => c.least, high: (c) => c.greatest, text: "least to greatest of the seeds"},
};

function seedCounts(cells) {
  const counts = cells.flat().map((cell) => cell.n).filter((n) => n > 0);
  if (counts.length === 0) return "n = 0";
  const [least, most] = d3.extent(counts);
  return least === most ? `n = ${most}` : `n = ${least} to ${most}`;
}

function lengthSpec(report, table, band) {
  const inTokens = report.train_lengths.length === 1 && report.columns.every((column) => column.lengths.length === 1);
  const xOf = (column) => (inTokens ? column.lengths[0] : column.multiple);
  const series = report.variants.map((variant, v) => ({name: variant.name, variant: v, points: report.columns.map((column, c) => {
    const cell = table.cells[v][c];
    if (cell.n === 0) return {x: xOf(column), y: NaN, n: 0};
    const spread = cell.n > 1 ? {low: kBands[band].low(cell), high: kBands[band].high(cell)} : {};
    return {x: xOf(column), y: cell.mean, n: cell.n, ...spread};
  })}));
  const trained = inTokens ? report.train_lengths[0] : 1;
  return {
    title: `${table.name} by evaluated length`,
    x: {name: inTokens ? "length" : "multiple", label: inTokens ? "evaluated length (tokens)" : "evaluated length over that of training",
      scale: "log2", ticks: report.columns.map(xOf), format: (value) => (inTokens ? String(value) : `${d3.format(".4~r")(value)}x`)},
    y: {unit: table.unit, log: false},
    series, dots: true,
    marks: [{x: trained, label: inTokens ? `trained at ${trained}` : "trained length"}],
    caption: `Protocol ${report.protocol.text || "not known"}. Line: mean over the seeds that finished, ${seedCounts(table.cells)}; band: `
      + `${kBands[band].text}. ${table.less_is_better ? "Less" : "More"} is better.`,
  };
}

function byPositionSpec(report, length) {
  const pointsOf = (run) => {
    const table = run.log && run.log.by_position;
    const row = table ? table.lengths.indexOf(length) : -1;
    if (row < 0 || !run.counts) return null;
    return table.positions.map((position, i) => {
      const y = table.loss[row * table.positions.length + i];
      return {x: position, y, low: y, high: y};
    });
  };
  const trained = report.train_lengths.filter((t) => t < length);
  return {
    title: "held-out loss by position",
    x: {name: "position", label: `position in windows of ${length} tokens`, scale: "linear"},
    y: {unit: "nats a token", log: false},
    series: seriesByVariant(report, pointsOf),
    marks: trained.length === 1 ? [{x: trained[0], label: `trained at ${trained[0]}`}] : [],
    caption: `Protocol ${report.protocol.name || "not known"}, last evaluation; each point is the mean over a bucket of positions that begins `
      + "there. Line: mean over the seeds that finished; band: least to greatest of them.",
  };
}

function lengthSection(host, report) {
  if (report.columns.length === 0) {
    host.append(note("No run has been evaluated yet."));
    return;
  }
  const exact = report.tables.findIndex((table) => table.name === "exact match");
  const state = kept("length", {table: Math.max(exact, 0), band: "sd", length: null});
  const lengths = Array.from(new Set(report.runs.flatMap((run) => (run.log && run.log.by_position ? run.log.by_position.lengths : [])))).sort(d3.ascending);
  const row = element("div", {class: lengths.length ? "row two" : "row"});
  host.append(variantLegend(report), row);
  let draw = () => {};
  const controls = [select("band", Object.entries(kBands).map(([value, {label}]) => ({value, label})), state.band, (band) => {
    state.band = band;
    draw();
  })];
  if (report.tables.length > 1) {
    controls.unshift(select("of", report.tables.map((table, value) => ({value, label: table.name})), state.table, (table) => {
      state.table = Number(table);
      draw();
    }));
  }
  draw = lineChart(row, report, "length", controls, () => lengthSpec(report, report.tables[state.table], state.band));
  if (lengths.length === 0) return;
  if (!lengths.includes(state.length)) state.length = d3.max(lengths);
  let drawPositions = () => {};
  drawPositions = lineChart(row, report, "position", [select("length", lengths.map((value) => ({value, label: value})), state.length, (length) => {
    state.length = Number(length);
    drawPositions();
  })], () => byPositionSpec(report, state.length));
}
