// Loss, learning rate and gradient norm over the training.

const kTrainCharts = [
  {id: "loss", column: "loss", title: "training loss", unit: "nats a token"},
  {id: "grad-norm", column: "grad_norm", title: "gradient norm before clipping", unit: ""},
  {id: "lr", column: "lr", title: "learning rate", unit: ""},
];

// "1 step", "64 steps": the widths that occur.
function widthsText(widths) {
  const [least, most] = d3.extent(widths);
  return least === most ? `${most} step${most === 1 ? "" : "s"}` : `${least} to ${most} steps`;
}

function trainingSpec(report, chart, state) {
  const pointsOf = (run) => {
    const train = run.log && run.log.train;
    if (!train) return null;
    const values = train[chart.column];
    const smooth = runningMean(values.mean, state.smoothing);
    const xs = state.x === "step" ? train.step : train.tokens;
    return Array.from(smooth, (y, k) => ({x: train.step[k] < 0 ? NaN : xs[k], y, low: values.least[k], high: values.greatest[k]}));
  };
  const events = report.runs.filter((run) => run.diverged && run.log && run.log.train).map((run) => {
    const {step, tokens} = run.log.train;
    const at = step.findIndex((s) => s >= run.diverged.step);
    return {x: state.x === "step" ? run.diverged.step : tokens[at < 0 ? tokens.length - 1 : at], variant: run.variant,
      text: `${run.id} diverged at ${run.diverged.text}`};
  });
  return {
    title: chart.title,
    x: {name: state.x, label: state.x === "step" ? "step" : "training tokens", scale: "linear"},
    y: {unit: chart.unit, log: state.log[chart.id]},
    series: state.lines === "runs" ? seriesByRun(report, pointsOf) : seriesByVariant(report, pointsOf),
    events,
  };
}

function trainingCaption(report, state) {
  const trains = report.runs.map((run) => run.log && run.log.train).filter(Boolean);
  const merged = trains.some((train) => train.merged);
  const perRun = state.lines === "runs";
  return (merged ? `Each point is the mean of ${widthsText(trains.map((train) => train.width))}` : "Each point is a logged step")
      + (state.smoothing > 1 ? `, smoothed by a running mean over ${state.smoothing} points. ` : ", not smoothed. ")
      + (perRun ? "A line a run" : "Line: mean over the seeds of a variant")
      + (perRun && !merged ? "." : `; band: least to greatest${perRun ? "" : " over seeds"}${merged ? " of the steps that a point stands for" : ""}, never smoothed.`)
      + (report.runs.some((run) => run.diverged) ? " A cross marks where a run diverged." : "");
}

function trainingSection(host, report) {
  if (!report.runs.some((run) => run.log && run.log.train)) {
    host.append(note("No log has training rows."));
    return;
  }
  const state = kept("training", {x: "step", smoothing: 1, lines: "variants", log: {loss: false, "grad-norm": true, lr: false}});
  const draws = [];
  const caption = note("");
  const redraw = (change) => {
    Object.assign(state, change);
    for (const draw of draws) draw();
    caption.textContent = trainingCaption(report, state);
  };
  host.append(element("div", {class: "controls"},
    choice("against", [{value: "step", label: "step"}, {value: "tokens", label: "tokens"}], state.x, (x) => redraw({x})),
    select("smoothing", [1, 5, 15, 51].map((value) => ({value, label: value === 1 ? "none" : `running mean of ${value} points`})), state.smoothing,
      (smoothing) => redraw({smoothing: Number(smoothing)})),
    choice("lines", [{value: "variants", label: "variants"}, {value: "runs", label: "every run"}], state.lines, (lines) => redraw({lines}))));
  const row = element("div", {class: "row two"});
  host.append(variantLegend(report), row, caption);
  redraw({});
  for (const chart of kTrainCharts) {
    let draw = () => {};
    const scale = choice("scale", [{value: "linear", label: "linear"}, {value: "log", label: "log"}], state.log[chart.id] ? "log" : "linear", (value) => {
      state.log[chart.id] = value === "log";
      draw();
    });
    draw = lineChart(row, report, chart.id, [scale], () => trainingSpec(report, chart, state));
    draws.push(draw);
  }
}
