"use strict";
// A click on a header sorts by its column, a second click reverses the order; rows without a number are last.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.firstElementChild.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const numeric = head.classList.contains("number");
      const key = (row) => {
        const cell = row.cells[column];
        return numeric ? Number(cell.dataset.value ?? NaN) : cell.textContent.trim();
      };
      const compare = (a, b) => {
        if (!numeric) return (down ? -1 : 1) * a.localeCompare(b, "en", { numeric: true });
        if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
        return down ? b - a : a - b;
      };
      const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
      rows.sort((a, b) => compare(a[0], b[0]));
      table.tBodies[0].append(...rows.map(([, row]) => row));
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
    });
  });
}
// The legend shows the values of the curves at the pointer.
for (const figure of document.querySelectorAll("figure[data-curves]")) {
  const curves = JSON.parse(figure.dataset.curves);
  const chart = figure.querySelector("svg.chart");
  const cursor = chart.querySelector(".cursor");
  const [left, right, last] = ["left", "right", "steps"].map((name) => Number(chart.dataset[name]));
  const outputs = figure.querySelectorAll("output");
  const at = figure.querySelector(".steps");
  const usual = at.textContent;
  const nearest = (steps, x) =>
    steps.reduce((best, s, i) => (Math.abs(s - x) < Math.abs(steps[best] - x) ? i : best), 0);
  const digits = (x) => (Math.abs(x) >= 1000 ? 0 : Math.abs(x) >= 10 ? 1 : 2);
  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * chart.viewBox.baseVal.width;
    const steps = Math.min(Math.max(((x - left) / (right - left)) * last, 0), last);
    curves.forEach(([where, values], index) => {
      const beyond = steps > where[where.length - 1] * 1.02 + 1;
      const value = values[nearest(where, steps)];
      outputs[index].textContent = beyond ? "–" : value.toFixed(digits(value));
    });
    const place = left + (steps / last) * (right - left);
    cursor.setAttribute("x1", place);
    cursor.setAttribute("x2", place);
    figure.classList.add("reading");
    at.textContent = `at ${Math.round(steps).toLocaleString("en")} steps`;
  });
  chart.addEventListener("pointerleave", () => {
    figure.classList.remove("reading");
    outputs.forEach((output) => { output.textContent = ""; });
    at.textContent = usual;
  });
}
