const data = id => JSON.parse(document.getElementById(id)?.textContent ?? "{}");

// The rows of a chart's data, which ladder.show.interactive wrote as columns.
function rows(columns) {
  const read = Object.entries(columns).map(([name, column]) => [name, column.texts ? column.at.map(place => column.texts[place]) : column]);
  return read[0][1].map((_, place) => Object.fromEntries(read.map(([name, values]) => [name, values[place]])));
}

// Charts: a form's choices and ticks are parameters of each of its charts.
const look = {actions: false, renderer: "svg", logLevel: 1, config: {font: "system-ui, sans-serif", background: "transparent"}};
for (const [id, specs] of Object.entries(data("specs"))) {
  for (const {datasets} of specs) for (const name in datasets) datasets[name] = rows(datasets[name]);
  const form = document.getElementById(id);
  const panels = [...form.querySelectorAll(".panel")];
  const drawn = Promise.all(panels.map((panel, place) => vegaEmbed(panel, specs[place], look)));
  drawn.then(charts => charts.forEach(({view}) => view.addEventListener("click", (_, item) => follow(id, item?.datum))));
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("change", async () => {
    const picked = [...form.querySelectorAll("input:checked")].map(box => box.value);
    for (const {view} of await drawn) {
      for (const {name, value} of form.querySelectorAll("select")) view.signal("choose_" + name, value);
      view.signal("picked", picked).runAsync();
    }
  });
}

// A mark leads to its record.
function follow(chart, mark) {
  const stage = {by_size: "time", at_one_size: "time", accuracy: "accuracy", sustained: "sustained", check_errors: "check"}[chart] ?? "profile";
  const rung = mark?.rung?.replace(/ \(.*\)$/, "");
  const ids = [mark?.shape, mark?.n].map(shape => `${stage}-${rung}-${shape}`).concat(`${stage}-${rung}`);
  const id = ids.find(id => document.getElementById(id));
  if (id) location.hash = id;
}

// Two rungs side by side.
function text(value) {  // as ladder.show.numbers writes it
  if (value == null) return "";
  if (Number.isInteger(value) || Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en");
  return Math.abs(value) < 1e-3 ? value.toExponential(2) : value.toPrecision(4);
}

function difference(one, other) {  // lines of both in order, marked " ", "-" or "+": the longest common subsequence
  const common = Array.from({length: one.length + 1}, () => new Uint16Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i--)
    for (let j = other.length - 1; j >= 0; j--)
      common[i][j] = one[i] === other[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  const lines = [];
  for (let i = 0, j = 0; i < one.length || j < other.length;) {
    if (i < one.length && j < other.length && one[i] === other[j]) lines.push([" ", one[i++], j++]);
    else if (j === other.length || (i < one.length && common[i + 1][j] >= common[i][j + 1])) lines.push(["-", one[i++]]);
    else lines.push(["+", other[j++]]);
  }
  return lines;
}

function compare({rungs, groups}, form) {
  const [one, other, shape] = [...form.querySelectorAll("select")].map(select => select.value);
  const places = [one, other].map(name => Object.keys(rungs).indexOf(name));
  const row = (cells, tag = "td") => `<tr>${cells.map(cell => `<${tag}>${cell}</${tag}>`).join("")}</tr>`;
  const links = [one, other].map(name => `<a href="#rung-${rungs[name]}">${name}</a>`);
  const linked = (value, name, title) => {
    const stage = title === "Times" ? "time" : title === "Resources" ? "build" : "profile";
    const id = `${stage}-${rungs[name]}-${shape}`;
    return value != null && document.getElementById(id) ? `<a href="#${id}">${text(value)}</a>` : text(value);
  };
  let html = row([`at ${shape}`, ...links, "second / first"], "th");
  for (const [title, metrics] of Object.entries(groups)) {
    const rows = metrics.map(metric => [metric, ...places.map(place => metric.at[shape]?.[place])])
      .filter(([, ...values]) => values.some(value => title.startsWith("Stalls") ? value : value != null));  // that occur
    const known = Object.keys(metrics[0]?.at ?? {}).filter(each => places.some(place => metrics[0].at[each][place] != null));
    html += `<tr><th colspan="4">${title}${rows.length ? "" : `: not recorded at ${shape}, but at ${known.join(", ") || "no shape"}`}</th></tr>`;
    for (const [{name, hint}, first, second] of rows)
      html += row([hint ? `<abbr title="${hint}">${name}</abbr>` : name, linked(first, one, title), linked(second, other, title), first && second ? text(second / first) : ""]);
  }
  document.getElementById("compared").innerHTML = html;
  const sources = [one, other].map(name => document.querySelector(`[id="rung-${rungs[name]}"] .code pre`)?.innerHTML.split("\n") ?? []);
  const lines = difference(...sources);
  const near = place => lines.slice(Math.max(0, place - 3), place + 4).some(([mark]) => mark !== " ");
  const class_of = {"-": "del", "+": "ins", " ": "span"};
  document.getElementById("difference").innerHTML = lines.map(([mark, line], place) =>
    near(place) ? `<${class_of[mark]}>${mark} ${line}</${class_of[mark]}>\n` : near(place - 1) ? "...\n" : "").join("") || "the same";
}
const pair = document.querySelector("#compare form");
if (pair) {
  const numbers = data("numbers");
  pair.addEventListener("change", () => compare(numbers, pair));
  compare(numbers, pair);
}

// Plain tables are copied and saved like the others.
for (const table of document.querySelectorAll(".page table, table.plain")) {
  const buttons = document.createElement("p");
  buttons.className = "buttons";
  buttons.innerHTML = "<button>Copy</button> <button>CSV</button>";
  const [copy, save] = buttons.children;
  const rows = (between, quote) => [...table.rows].map(row => [...row.cells].map(cell => quote(cell.innerText)).join(between)).join("\n");
  copy.onclick = () => navigator.clipboard.writeText(rows("\t", cell => cell));
  save.onclick = () => {
    const csv = new Blob([rows(",", cell => `"${cell.replaceAll('"', '""')}"`)], {type: "text/csv"});
    Object.assign(document.createElement("a"), {href: URL.createObjectURL(csv), download: "table.csv"}).click();
  };
  table.before(buttons);
}

function open_target() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let part = target; part; part = part.parentElement) if (part instanceof HTMLDetailsElement) part.open = true;
  target?.scrollIntoView();
}
open_target();
addEventListener("hashchange", open_target);
document.documentElement.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
