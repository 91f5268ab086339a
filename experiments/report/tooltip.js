// The box beside the pointer, and the same words for those who hear the page.

function swatch(variant) {
  const svg = d3.create("svg").attr("viewBox", "0 0 22 10").attr("aria-hidden", true);
  svg.append("line").attr("class", `line ${variantClass(variant)}`).attr("x1", 0).attr("x2", 22).attr("y1", 5).attr("y2", 5);
  return svg.node();
}

// rows: [{variant (or undefined), name, value}]
function showTooltip(x, y, head, rows, spoken) {
  const kMost = 14;
  const box = document.getElementById("tooltip");
  const body = element("tbody");
  for (const row of rows.slice(0, kMost)) {
    const name = element("td", {});
    if (row.variant !== undefined) name.append(swatch(row.variant));
    name.append(row.name);
    body.append(element("tr", {}, name, element("td", {}, row.value)));
  }
  box.replaceChildren(element("strong", {}, head), element("table", {}, body));
  if (rows.length > kMost) box.append(`and ${rows.length - kMost} more`);
  box.hidden = false;
  const size = box.getBoundingClientRect();
  const left = x + 16 + size.width > window.innerWidth ? Math.max(4, x - 16 - size.width) : x + 16;
  const top = Math.min(Math.max(4, y - size.height / 2), Math.max(4, window.innerHeight - size.height - 4));
  box.style.left = `${left}px`;
  box.style.top = `${top}px`;
  if (spoken) announce(`${head}: ${rows.map((row) => `${row.name} ${row.value}`).join("; ")}`);
}

function hideTooltip() {
  document.getElementById("tooltip").hidden = true;
}

function announce(text) {
  document.getElementById("announcement").textContent = text;
}
