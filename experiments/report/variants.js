// Which variant has which colour and dash, which are hidden, and how the runs of one are put together.

const hiddenVariants = new Set();
let pointedVariant = null;  // in a legend

// What the reader has chosen, by section; a page that is built anew from fresh data begins with it.
const choices = new Map();

function kept(section, initial) {
  if (!choices.has(section)) choices.set(section, initial);
  return choices.get(section);
}

function variantClass(index) {
  return `s${index % 8} d${Math.min(Math.floor(index / 8), 3)}`;
}

// All that is drawn and must follow a change of size, theme or legend.
const drawings = new Set();

function redrawCharts() {
  for (const draw of drawings) draw();
}

// A line a variant from the runs of its seeds. pointsOf(run) gives [{x, y, low, high}], by the same buckets in every run
// of a variant, or null. The line is the mean over the seeds that have a finite value, the band from the least to the
// greatest of them and of what was merged.
function seriesByVariant(report, pointsOf) {
  return report.variants.map((variant, index) => {
    const runs = report.runs.filter((run) => run.variant === index).map(pointsOf).filter((points) => points !== null);
    const count = d3.max(runs, (points) => points.length) || 0;
    const points = [];
    for (let k = 0; k < count; ++k) {
      const here = runs.map((run) => run[k]).filter((point) => point !== undefined && Number.isFinite(point.x));
      const finite = here.filter((point) => Number.isFinite(point.y));
      if (here.length === 0) continue;
      points.push({x: here[0].x, y: finite.length ? d3.mean(finite, (point) => point.y) : NaN, low: d3.min(here, (point) => point.low),
        high: d3.max(here, (point) => point.high), n: finite.length});
    }
    return {name: variant.name, variant: index, points};
  });
}

// A line a run, in the colour of its variant.
function seriesByRun(report, pointsOf) {
  return report.runs.map((run) => ({name: run.id, variant: run.variant, thin: true, points: (pointsOf(run) || []).filter((p) => Number.isFinite(p.x))}));
}

// The mean of `width` values around each; at the ends of those that there are.
function runningMean(values, width) {
  if (width <= 1) return values;
  const reach = Math.floor(width / 2);
  return Float64Array.from(values, (_, i) => {
    if (!Number.isFinite(values[i])) return NaN;
    const near = values.slice(Math.max(0, i - reach), i + reach + 1).filter(Number.isFinite);
    return d3.mean(near);
  });
}
