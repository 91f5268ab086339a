// Light and dark: as the system wishes, until the reader chooses.

function themeSwitch(host) {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const button = element("button", {type: "button", id: "theme-switch", onclick: () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    show();
  }});
  function isDark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : system.matches;
  }
  function show() {
    button.textContent = isDark() ? "Light page" : "Dark page";
    redrawCharts();
  }
  system.addEventListener("change", show);
  host.replaceChildren(button);
  show();
}
