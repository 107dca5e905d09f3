#include "report/page.h"

#include <string_view>

#include "base/check.h"
#include "report/markup.h"

namespace taxon::report {
namespace {

// The colours of series are Okabe and Ito's; on a dark ground black is white and blue is lighter.
constexpr const char* kColours = R"css(
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1f24; --soft: #57606a; --faint: #e4e7eb; --edge: #8c959f;
  --wash: #f6f8fa; --k0: #0072b2; --k1: #d55e00; --k2: #009e73; --k3: #cc79a7; --k4: #c98500; --k5: #56b4e9; --k6: #1b1f24; }
@media (prefers-color-scheme: dark) { :root { --ground: #12161b; --ink: #e6e9ed; --soft: #a3acb7; --faint: #2a313a;
  --edge: #6b7683; --wash: #1a2027; --k0: #4aa8e0; --k1: #f07f2e; --k2: #23bd92; --k3: #dd94bd; --k4: #e69f00;
  --k5: #8fd0f5; --k6: #e6e9ed; } }
)css";

constexpr const char* kPageStyle = R"css(
@media print { :root { --ground: #fff; --ink: #000; } .hint { display: none; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem clamp(1rem, 3vw, 3rem) 4rem; max-width: 100rem; background: var(--ground);
  color: var(--ink); font: 15px/1.5 "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.4rem 0 .4rem; }
p { margin: .3rem 0 .7rem; max-width: 60rem; } .soft, .hint, figcaption { color: var(--soft); font-size: .87rem; }
.origin { border: 1px solid currentColor; border-radius: 3px; padding: 0 .4em; font-size: .87rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .8rem 0; font-size: .87rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; } code { font: .95em ui-monospace, Menlo, monospace; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .87rem; border-block: 2px solid var(--ink); margin: .5rem 0; }
caption { caption-side: bottom; text-align: left; color: var(--soft); padding-top: .4rem; }
caption span { display: block; position: sticky; left: 0; max-width: min(60rem, calc(100vw - 3.2rem)); }
th, td { padding: .3rem .8rem; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--faint); }
thead th { border-bottom: 1px solid var(--ink); vertical-align: bottom; } td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.best { font-weight: 700; } td.failed { white-space: normal; color: var(--k1); } tbody th { font-weight: 500; position: sticky; left: 0; background: var(--ground); }
thead button { all: unset; cursor: pointer; font-weight: 600; } thead button:focus-visible, .legend button:focus-visible { outline: 2px solid var(--k0); outline-offset: 2px; }
thead [aria-sort=ascending] button::after { content: " ▲"; } thead [aria-sort=descending] button::after { content: " ▼"; }
.legend { display: flex; flex-wrap: wrap; gap: .15rem 1.2rem; list-style: none; padding: 0; margin: .6rem 0; font-size: .87rem; }
.legend button { all: unset; cursor: pointer; display: inline-flex; align-items: center; gap: .4rem; }
.legend button[aria-pressed=false] { opacity: .35; } .off { display: none; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: 1rem 1.6rem; }
.small { grid-template-columns: repeat(auto-fill, minmax(min(100%, 18rem), 1fr)); } figure { margin: 0; min-width: 0; }
svg.chart { display: block; width: 100%; height: auto; max-width: 62rem; } .small svg.chart { max-width: 24rem; }
@media (max-width: 40rem) { th, td { padding: .3rem .45rem; } tbody th, thead th:first-child { white-space: normal; overflow-wrap: anywhere;
  min-width: 7.5rem; } thead th:first-child { position: sticky; left: 0; background: var(--ground); } dl { grid-template-columns: 1fr; } dd { margin: 0 0 .4rem; } }
)css";

constexpr const char* kChartStyle = R"css(
svg text { font: 12px "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif; fill: var(--ink); }
svg .tick { fill: var(--soft); font-size: 11.5px; } svg .heading { font-weight: 600; } svg .axis { stroke: var(--edge); fill: none; }
svg .grid { stroke: var(--faint); fill: none; } svg .line { fill: none; stroke: var(--c); stroke-width: 1.9; stroke-linejoin: round; }
svg .mark { fill: var(--c); stroke: var(--ground); stroke-width: .7; } svg .fill { fill: var(--c); } svg .band { fill: var(--c); opacity: .17; }
svg .lead { fill: none; stroke: var(--c); stroke-width: .8; stroke-dasharray: 1 2.5; opacity: .8; }
svg .goal { stroke: var(--soft); stroke-dasharray: 5 3; fill: none; } .series:hover .line { stroke-width: 3.2; }
.c0 { --c: var(--k0); } .c1 { --c: var(--k1); } .c2 { --c: var(--k2); } .c3 { --c: var(--k3); } .c4 { --c: var(--k4); } .c5 { --c: var(--k5); } .c6 { --c: var(--k6); }
.p0, .compute { fill: var(--k0); } .p1, .talk { fill: var(--k1); } .p2, .update { fill: var(--k2); }
)css";

// Sorts a table by the column whose heading is pressed, and switches series off and on.
constexpr const char* kScript = R"js(
for (const table of document.querySelectorAll("table.sorts")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.onclick = () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        const x = key(a), y = key(b), empty = (x === "") - (y === "");
        if (empty) return empty;
        const order = isNaN(x) || isNaN(y) ? String(x).localeCompare(y) : x - y;
        return up ? order : -order;
      });
      table.tBodies[0].append(...rows);
    };
  });
}
for (const button of document.querySelectorAll(".legend button"))
  button.onclick = () => {
    const off = button.getAttribute("aria-pressed") === "true";
    button.setAttribute("aria-pressed", String(!off));
    for (const part of document.querySelectorAll(`[data-series="${button.value}"]`)) part.classList.toggle("off", off);
  };
)js";

}  // namespace

std::string page(const std::string& title, const std::string& body) {
  std::string html = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  html += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  html += "<title>" + escape(title) + "</title>\n<style>" + kColours + kPageStyle + kChartStyle +
          "</style>\n</head>\n<body>\n";
  return html + body + "<script>" + kScript + "</script>\n</body>\n</html>\n";
}

std::string picture(const std::string& chart) {
  constexpr std::string_view kElement = "<svg ";
  TAXON_CHECK(chart.starts_with(kElement));
  const std::size_t inside = chart.find('>') + 1;
  std::string file =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" " + chart.substr(kElement.size(), inside - kElement.size());
  file += std::string("<style>") + kColours + kChartStyle + "</style>";
  file += "<rect width=\"100%\" height=\"100%\" style=\"fill: var(--ground)\"/>";
  return file + chart.substr(inside) + "\n";
}

}  // namespace taxon::report
