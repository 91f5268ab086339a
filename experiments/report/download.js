// CSV and SVG of what is shown.

function saveFile(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  const link = element("a", {href: url, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

function csvField(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  const text = String(value);
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

function csvText(rows) {
  return rows.map((row) => row.map(csvField).join(",")).join("\n") + "\n";
}

const kExportedStyles = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font-family",
  "font-size", "font-weight", "text-anchor", "image-rendering"];

// The picture as a file of its own: styles written out, on the page's paper, with a title and a legend.
function svgText(svg, title, entries) {
  const copy = svg.cloneNode(true);
  const originals = svg.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((node, i) => {
    const style = getComputedStyle(originals[i]);
    node.setAttribute("style", kExportedStyles.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
    node.removeAttribute("class");
  });
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const page = getComputedStyle(document.body);
  const head = 28;
  const lineHeight = 18;
  const all = height + head + lineHeight * entries.length + 8;
  const whole = d3.create("svg").attr("xmlns", "http://www.w3.org/2000/svg").attr("viewBox", `0 0 ${width} ${all}`).attr("width", width)
    .attr("height", all).attr("font-family", page.fontFamily).attr("font-size", 12);
  whole.append("rect").attr("width", width).attr("height", all).attr("fill", page.backgroundColor);
  whole.append("text").attr("x", 8).attr("y", 18).attr("font-size", 14).attr("fill", page.color).text(title);
  const body = whole.append("g").attr("transform", `translate(0,${head})`);
  body.node().append(...copy.childNodes);
  entries.forEach((entry, i) => {
    const y = height + head + lineHeight * i + 8;
    whole.append("line").attr("x1", 8).attr("x2", 32).attr("y1", y).attr("y2", y).attr("stroke", entry.colour).attr("stroke-width", 2)
      .attr("stroke-dasharray", entry.dash);
    whole.append("text").attr("x", 40).attr("y", y + 4).attr("fill", page.color).text(entry.name);
  });
  return new XMLSerializer().serializeToString(whole.node());
}

// "positions-training-loss"
function fileName(report, id) {
  return `${report.title}-${id}`.replace(/[^A-Za-z0-9_.-]+/g, "_").slice(-80);
}

function downloadButtons(title, csv, svg) {
  return element("span", {class: "chart-tools"},
    element("button", {type: "button", "aria-label": `${title}: download CSV`, onclick: csv}, "CSV"),
    element("button", {type: "button", "aria-label": `${title}: download SVG`, onclick: svg}, "SVG"));
}
