// Entropy and greatest logit, over the training and by layer and head.

const kCourses = [
  {id: "mean-entropy", column: "mean_entropy", title: "mean attention entropy", unit: "nats", caption: "Mean over queries, heads and layers."},
  {id: "greatest-logit", column: "greatest_logit", title: "greatest attention logit", unit: "", caption: "Greatest over layers and heads."},
];

function courseSpec(report, course) {
  const pointsOf = (run) => {
    const attention = run.log && run.log.attention;
    if (!attention) return null;
    const values = attention.course[course.column];
    return Array.from(attention.course.step, (step, k) => ({x: step < 0 ? NaN : step, y: values.mean[k], low: values.least[k], high: values.greatest[k]}));
  };
  return {
    title: course.title,
    x: {name: "step", label: "step", scale: "linear"}, y: {unit: course.unit, log: false},
    series: seriesByVariant(report, pointsOf),
    caption: `${course.caption} Line: mean over the seeds of a variant; band: least to greatest over seeds and merged rows.`,
  };
}

function headsSpec(report, index, others, state) {
  const run = report.runs[index];
  if (!run) return {empty: ""};
  const attention = run.log && run.log.attention;
  if (!attention) return {empty: `The log of ${run.id} has no attention statistics.`};
  const {n_heads, n_layers} = run.log;
  const cells = n_layers * n_heads;
  const rowOf = (log, share) => {
    const used = d3.range(log.attention.step.length).filter((k) => log.attention.step[k] >= 0);
    return used[Math.round(share * (used.length - 1))];
  };
  const bucket = rowOf(run.log, state.share);
  const value = (column, row) => {
    const v = attention[state.quantity][bucket * cells + row * n_heads + column];
    return Number.isNaN(v) || Number.isFinite(v) ? v : Infinity;
  };
  const all = others.map((i) => report.runs[i].log).filter((log) => log && log.attention).map((log) => log.attention[state.quantity]);
  const label = state.quantity === "entropy" ? "entropy (nats)" : "greatest logit";
  return {
    title: `${label}: ${run.id}, step ${d3.format(",")(attention.step[bucket])}`,
    columns: n_heads, rows: n_layers, width: 1, span: n_heads, value, detail: (column, row) => formatNumber(value(column, row)),
    columnName: "head", rowName: "layer", columnLabel: String, rowLabel: String,
    colour: {scale: "linear", domain: linearDomain(all), label}, xTicks: d3.range(n_heads).map((h) => h + 0.5), xText: (at) => String(Math.floor(at)),
    caption: "Mean over queries, as logged at this step. The colours span all steps of the runs shown, so that steps and runs compare.",
  };
}

function attentionSection(host, report) {
  const has = (log) => log.attention;
  const options = runOptions(report, has);
  if (options.length === 0) {
    host.append(note("No log has attention statistics (log.attention_every)."));
    return;
  }
  const courses = element("div", {class: "row two"});
  host.append(variantLegend(report), courses);
  for (const course of kCourses) lineChart(courses, report, course.id, [], () => courseSpec(report, course));
  const first = firstRuns(report, has);
  const state = kept("attention", {quantity: "entropy", share: 1, shown: [first[0], first.length > 1 ? first[1] : "none"]});
  const shown = state.shown;
  const draws = [];
  const redraw = (change) => {
    Object.assign(state, change);
    for (const draw of draws) draw();
  };
  const kSteps = 40;
  host.append(element("div", {class: "controls"},
    choice("by layer and head", [{value: "entropy", label: "entropy"}, {value: "max_logit", label: "greatest logit"}], state.quantity,
      (quantity) => redraw({quantity})),
    slider("of the training", d3.range(kSteps + 1), Math.round(state.share * kSteps), (i) => d3.format(".0%")(i / kSteps), (i) => redraw({share: i / kSteps}))));
  const row = element("div", {class: "row two"});
  host.append(row);
  draws.push(...heatMapPair(row, report, "heads", options, shown, () => redraw({}), (run, both) => headsSpec(report, run, both, state)));
}
