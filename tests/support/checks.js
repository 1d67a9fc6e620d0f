// Names without a label, fields without a name, and text that can hardly be told from what is behind it.
(() => {
  const found = [];
  const seen = (e) => e.checkVisibility() && !e.closest(".unseen, .skip");
  const name = (e) => (e.getAttribute("aria-label") || e.innerText || e.title || e.labels?.[0]?.innerText || e.placeholder || "").trim();
  for (const e of document.querySelectorAll("a, button, input:not([type=hidden]), textarea, select, summary, [role=img], progress"))
    if (seen(e) && !name(e)) found.push("no name: " + e.outerHTML.slice(0, 120));
  if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
  if (document.documentElement.scrollWidth > innerWidth + 1) found.push("wider than the window: " + document.documentElement.scrollWidth);
  const rgb = (text) => { const n = text.match(/[\d.]+/g).map(Number); return { c: n.slice(0, 3), a: n[3] ?? 1 }; };
  const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255, v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { for (; e; e = e.parentElement) { const b = rgb(getComputedStyle(e).backgroundColor); if (b.a > 0.99) return b.c; } return [255, 255, 255]; };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let t; (t = walker.nextNode()); ) {
    const e = t.parentElement;
    if (!t.nodeValue.trim() || !seen(e) || e.closest("svg, option, script, [aria-hidden], :disabled")) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color).c), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.push("contrast " + ratio.toFixed(2) + ": " + t.nodeValue.trim().slice(0, 60));
  }
  return [...new Set(found)];
})()
