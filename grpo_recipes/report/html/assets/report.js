"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = new Map(data.charts.map((chart) => [chart.id, chart]));
  const several = data.x.length > 1;
  const HEIGHT = 180;
  const live = new Map();

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const shown = (chart, value) => {
    if (value == null) return "-";
    if (chart.is_share) return `${+(value * 100).toPrecision(3)} %`;
    if (value !== 0 && Math.abs(value) < 1e-3) return (+value.toPrecision(4)).toExponential(); // the axis has no room for 0.00025
    return Math.abs(value) >= 1e4 ? value.toLocaleString("en", { maximumFractionDigits: 0 }) : String(+value.toPrecision(4));
  };

  // The columns of a chart: steps, then for each line its values and, where it has a band, the ends of that.
  function table(chart) {
    const parts = chart.lines.map((line) => {
      const part = [line.x || data.x[line.run], line.y];
      if (line.low) part.push(line.low, line.high);
      return part;
    });
    return parts.length > 1 ? uPlot.join(parts) : parts[0];
  }

  function draw(figure) {
    const chart = byId.get(figure.dataset.chart);
    const place = figure.querySelector(".plot");
    const text = colour("--soft"), grid = { stroke: colour("--line"), width: 1 };
    const font = "12px system-ui, sans-serif";
    const series = [{ label: "step" }], bands = [], whiskers = [];
    chart.lines.forEach((line, number) => {
      const stroke = colour(`--c${several ? data.colours[line.run] : number % 8}`);
      const isFew = line.y.length < 3;  // two points are no course
      const points = { show: chart.has_points || isFew, size: 7, stroke, fill: stroke };
      series.push({ label: line.label, stroke, width: isFew ? 0 : 1.8, spanGaps: true, points, value: (_, value) => shown(chart, value) });
      if (!line.low) return;
      for (const end of ["low", "high"]) {
        series.push({ label: end, class: "u-end", width: 0, points: { show: false }, spanGaps: true, value: (_, value) => shown(chart, value) });
      }
      if (chart.has_points) whiskers.push([series.length - 2, stroke]);
      else bands.push({ series: [series.length - 1, series.length - 2], fill: `${stroke}2e` });
    });
    const drawWhiskers = ({ ctx, data, valToPos }) => {
      ctx.lineWidth = 2 * devicePixelRatio;
      for (const [low, stroke] of whiskers) {
        ctx.strokeStyle = stroke;
        ctx.beginPath();
        data[0].forEach((step, index) => {
          if (data[low][index] == null) return;
          const x = valToPos(step, "x", true);
          ctx.moveTo(x, valToPos(data[low][index], "y", true));
          ctx.lineTo(x, valToPos(data[low + 1][index], "y", true));
        });
        ctx.stroke();
      }
    };
    const width = (plot, first, last) => {
      const room = (last - first) * 0.03 || 1;
      return [first - room, last + room];
    };
    const range = (plot, low, high) => {
      if (low == null) return [0, 1];
      if (chart.is_share) return [0, Math.max(1, high)];
      const room = high > low ? (high - low) * 0.08 : Math.abs(high) * 0.1 || 1;
      return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
    };
    const steps = (plot, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? tick.toLocaleString("en") : ""));
    const axis = { stroke: text, grid, ticks: { ...grid, size: 4 }, font };
    const options = {
      width: place.clientWidth, height: HEIGHT, padding: [8, 14, 0, 0], series, bands,
      scales: { x: { time: false, ...(chart.has_points && { range: width }) }, y: { range } },
      axes: [{ ...axis, values: steps, size: 30 }, { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => shown(chart, tick)) }],
      cursor: { sync: { key: "steps" }, points: { size: 7 } },
      legend: { live: true, markers: { width: 0, fill: (_, index) => series[index].stroke || null } },
      hooks: { draw: [drawWhiskers] },
    };
    live.get(figure)?.destroy();
    place.replaceChildren();
    const plot = new uPlot(options, table(chart), place);
    const last = plot.data[0].length - 1;
    // Until the mouse is over the chart, and after it left, the legend has the last step.
    const rest = () => { if (plot.cursor.idx == null && last >= 0) plot.setLegend({ idx: last }, false); };
    plot.hooks.setCursor = [...(plot.hooks.setCursor || []), rest];
    rest();
    live.set(figure, plot);
  }

  function move(figure, by) {
    const plot = live.get(figure);
    if (!plot) return;
    const steps = plot.data[0], now = plot.cursor.idx;
    const from = now ?? (by === 1 ? -1 : by === -1 ? steps.length : 0);
    const to = Math.min(steps.length - 1, Math.max(0, from + by));
    const last = plot.series[1];
    plot.setCursor({ left: plot.valToPos(steps[to], "x"), top: last ? plot.over.clientHeight / 2 : 0 });
  }

  // A chart is drawn when it comes into view, and again for another width or colour scheme.
  const figures = [...document.querySelectorAll(".chart")];
  const inView = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting && !live.has(entry.target)) draw(entry.target);
    }
  }, { rootMargin: "300px" });
  const resized = new ResizeObserver((entries) => {
    for (const entry of entries) {
      const figure = entry.target.closest(".chart"), plot = live.get(figure);
      const width = Math.floor(entry.contentRect.width);
      if (plot && width > 0 && plot.width !== width) plot.setSize({ width, height: HEIGHT });
    }
  });
  for (const figure of figures) {
    inView.observe(figure);
    const place = figure.querySelector(".plot");
    resized.observe(place);
    place.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -1e9, End: 1e9 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      move(figure, by);
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => [...live.keys()].forEach(draw));

  for (const form of document.querySelectorAll(".filter")) {
    const list = document.getElementById(form.dataset.of);
    const apply = () => {
      const { kind, ended, text } = form.elements, wanted = text.value.toLowerCase();
      let count = 0;
      for (const one of list.children) {
        const fits = (!kind.value || one.dataset.kind === kind.value) && (!ended.value || one.dataset.ended === ended.value)
          && (!wanted || one.textContent.toLowerCase().includes(wanted));
        one.hidden = !fits;
        count += fits;
      }
      form.querySelector("output").textContent = `${count} of ${list.children.length}`;
    };
    form.hidden = false;
    form.addEventListener("input", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    apply();
  }

  // Links to a part inside of a closed one open it.
  const open = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", open);
  open();

  const written = Number(document.documentElement.dataset.written);
  const age = document.getElementById("age"), words = age.textContent;
  const tell = () => {
    const seconds = Math.max(0, Math.round(Date.now() / 1000 - written));
    const ago = seconds < 90 ? `${seconds} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
    age.textContent = `${words}, ${ago} ago`;
  };
  tell();
  setInterval(tell, 1000);
})();
