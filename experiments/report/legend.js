// A button a variant; what is switched off is off in every chart.

// A legend that follows the others of the page.
function variantLegend(report) {
  const host = element("div", {class: "legend", role: "group", "aria-label": "Variants shown", hidden: report.variants.length < 2});
  const draw = () => drawLegend(host, report);
  drawings.add(draw);
  draw();
  return host;
}

function drawLegend(host, report) {
  const buttons = report.variants.map((variant, index) => {
    const button = element("button", {type: "button", "aria-pressed": String(!hiddenVariants.has(index)), "data-variant": index,
      onclick: () => {
        if (!hiddenVariants.delete(index)) hiddenVariants.add(index);
        pointedVariant = null;
        redrawCharts();
      },
      onpointerenter: () => point(index), onpointerleave: () => point(null), onfocus: () => point(index), onblur: () => point(null)},
    swatch(index), variant.counted < variant.runs ? `${variant.name} (${variant.counted} of ${variant.runs})` : variant.name);
    return button;
  });
  if (hiddenVariants.size > 0) {
    buttons.push(element("button", {type: "button", class: "all", onclick: () => {
      hiddenVariants.clear();
      redrawCharts();
    }}, "show all"));
  }
  // The one that has the focus keeps it when it is drawn anew.
  const focused = host.contains(document.activeElement) ? document.activeElement.dataset.variant : undefined;
  host.replaceChildren(...buttons);
  if (focused !== undefined) buttons[Number(focused)]?.focus({preventScroll: true});
}

function point(variant) {
  if (pointedVariant === variant || (variant !== null && hiddenVariants.has(variant))) return;
  pointedVariant = variant;
  d3.selectAll(".chart [data-variant].line, .chart [data-variant].band, .chart [data-variant].dot")
    .classed("faded", function () { return variant !== null && Number(this.dataset.variant) !== variant; });
}
