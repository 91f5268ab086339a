// Elements and controls. Text is set as text, so that nothing in the data becomes markup.

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

// A group of buttons of which one is pressed. options: [{value, label}].
function choice(label, options, value, changed) {
  const group = element("span", {role: "group", "aria-label": label});
  const buttons = options.map((option) => element("button", {type: "button", "data-value": option.value, onclick: () => {
    press(option.value);
    changed(option.value);
  }}, option.label));
  function press(now) {
    for (const button of buttons) button.setAttribute("aria-pressed", button.dataset.value === String(now));
  }
  group.append(...buttons);
  press(value);
  return element("span", {class: "choice"}, label, group);
}

function select(label, options, value, changed) {
  const box = element("select", {onchange: () => changed(box.value)});
  for (const option of options) box.append(element("option", {value: option.value, selected: String(option.value) === String(value)}, option.label));
  return element("label", {}, label, box);
}

// A slider over the indices of `items`, with the text of the one chosen.
function slider(label, items, index, textOf, changed) {
  const shown = element("output", {}, textOf(items[index]));
  const input = element("input", {type: "range", min: 0, max: items.length - 1, value: index, "aria-label": label, oninput: () => {
    const i = Number(input.value);
    shown.textContent = textOf(items[i]);
    input.setAttribute("aria-valuetext", textOf(items[i]));
    changed(i);
  }});
  return element("label", {}, label, input, shown);
}

function note(text) {
  return element("p", {class: "note"}, text);
}
