// The table of runs, which stands in the page: sorted by a column, filtered by words, saved as CSV.

function sortKey(cell) {
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  return cell.textContent;
}

function runsTable(host, report) {
  const table = document.getElementById("runs");
  if (!table) return;
  const body = table.tBodies[0];
  const heads = Array.from(table.tHead.rows[0].cells);
  function sortBy(column, direction) {
    const rows = Array.from(body.rows).map((row) => ({row, key: sortKey(row.cells[column])}));
    // What has no value comes last, whichever way is sorted.
    const empty = (key) => key === "";
    rows.sort((a, b) => (empty(a.key) || empty(b.key) ? empty(a.key) - empty(b.key)
      : direction * (typeof a.key === "number" && typeof b.key === "number" ? a.key - b.key
        : String(a.key).localeCompare(String(b.key), "en", {numeric: true}))));
    body.append(...rows.map(({row}) => row));
    heads.forEach((head, i) => head.setAttribute("aria-sort", i === column ? (direction > 0 ? "ascending" : "descending") : "none"));
  }
  heads.forEach((head, column) => {
    const name = head.textContent;
    head.replaceChildren(element("button", {type: "button", onclick: () => {
      sortBy(column, head.getAttribute("aria-sort") === "ascending" ? -1 : 1);
    }}, name));
  });
  const count = element("output", {});
  const filter = element("input", {type: "search", placeholder: "rope s1 finished", oninput: () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of body.rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    const shown = Array.from(body.rows).filter((row) => !row.hidden).length;
    count.textContent = words.length ? `${shown} of ${body.rows.length}` : "";
  }});
  const rowsOf = () => [heads.map((head) => head.textContent), ...Array.from(body.rows).filter((row) => !row.hidden)
    .map((row) => Array.from(row.cells).map((cell) => cell.dataset.value ?? cell.textContent))];
  host.replaceChildren(element("div", {class: "controls"}, element("label", {}, "filter", filter), count,
    element("span", {class: "chart-tools"}, element("button", {type: "button", "aria-label": "Runs: download CSV",
      onclick: () => saveFile(`${fileName(report, "runs")}.csv`, "text/csv", csvText(rowsOf()))}, "CSV"))));
}
