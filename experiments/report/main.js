// Reads the data, which stand in the page or come from a URL again and again, and builds the sections.

const kPollMilliseconds = 3000;

const kSections = {length: lengthSection, training: trainingSection, gradients: gradientsSection, attention: attentionSection};

function buildReport(json) {
  const report = unpackReport(json);
  drawings.clear();
  for (const [id, html] of Object.entries(json.html || {})) document.getElementById(id).innerHTML = html;
  for (const [id, build] of Object.entries(kSections)) {
    const host = document.querySelector(`#${id} .charts`);
    host.replaceChildren();
    build(host, report);
  }
  document.getElementById("figures").hidden = report.columns.length > 0;
  runsTable(document.getElementById("runs-controls"), report);
}

// Of a page that is fed by a server; it keeps what is shown until something changed.
async function poll(url) {
  let last = "";
  for (;;) {
    try {
      const answer = await fetch(url, {cache: "no-store"});
      const text = await answer.text();
      if (answer.ok && text !== last) buildReport(JSON.parse(text));
      if (answer.ok) last = text;
    } catch (error) {
      document.getElementById("summary").textContent = `No answer: ${error.message}. Trying again.`;
    }
    await new Promise((resolve) => setTimeout(resolve, kPollMilliseconds));
  }
}

const source = document.getElementById("report-data");
themeSwitch(document.getElementById("theme"));
if (source.dataset.url) poll(source.dataset.url);
else buildReport(JSON.parse(source.textContent));
