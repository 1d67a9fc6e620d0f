// Keeps a page live: hears what is stale, fetches those fragments, and puts in what has changed.
// Keeps true: a field that somebody types in is never touched; nothing typed is lost; at most twenty fetches a second.
"use strict";
(() => {
  const ROUND_MS = 50;
  const body = document.body;
  const by = (id) => document.getElementById(id);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  // What was done is said for a while where everybody sees it; whoever does not see is told by the live region.
  const TOLD_MS = 5000;
  let telling = 0;
  const announce = (text) => {
    by("announce").textContent = text;
    const place = by("told");
    place.textContent = text;
    place.hidden = !text;
    clearTimeout(telling);
    telling = setTimeout(() => { place.hidden = true; }, TOLD_MS);
  };
  // Across the way to the next page.
  const announceThere = (text) => { try { sessionStorage.setItem("told", text); } catch { /* the page itself shows what was done */ } };
  const announceHere = () => {
    try {
      const text = sessionStorage.getItem("told");
      sessionStorage.removeItem("told");
      if (text) announce(text);
    } catch { /* as above */ }
  };

  // Times, in the reader's zone and language.
  const lang = document.documentElement.lang;
  const relative = new Intl.RelativeTimeFormat(lang, { numeric: "auto" });
  const absolute = new Intl.DateTimeFormat(lang, { dateStyle: "medium", timeStyle: "short" });
  const ago = (at) => {
    const seconds = Math.round((at - Date.now()) / 1000), size = Math.abs(seconds);
    if (size < 60) return relative.format(seconds, "second");
    if (size < 3600) return relative.format(Math.round(seconds / 60), "minute");
    if (size < 86400) return relative.format(Math.round(seconds / 3600), "hour");
    if (size < 30 * 86400) return relative.format(Math.round(seconds / 86400), "day");
    return absolute.format(at);
  };
  const tick = new Intl.DateTimeFormat(lang, { month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit" });
  const tellTimes = (within = document) => {
    for (const one of all("[data-at]", within)) {
      const text = tick.format(Date.parse(one.dataset.at));
      if (one.textContent !== text) one.textContent = text;
    }
    for (const one of all("time[datetime]", within)) {
      const at = Date.parse(one.getAttribute("datetime"));
      if (Number.isNaN(at)) continue;
      const text = ago(at);
      if (one.textContent !== text) one.textContent = text;
      one.title = absolute.format(at);
    }
  };

  // Fields.
  const isField = (node) => node.matches?.("input:not([type=hidden]), textarea, select");
  const isDirty = (field) => {
    if (field.nodeName === "SELECT") return field.selectedOptions[0] !== ([...field.options].find((option) => option.defaultSelected) || field.options[0]);
    if (field.type === "checkbox") return field.checked !== field.defaultChecked;
    return field.value !== field.defaultValue;
  };
  const holdsTyped = (node) => node.nodeType === 1 && [node, ...all("input, textarea, select", node)].some((one) => isField(one) && one.type !== "search" && isDirty(one));

  // What is typed survives a reload, and shows up nowhere else: a form is told from another by where it leads, by the session or the row that it is
  // about, and by what the address chooses among places of one path.
  const CHOOSE = ["section", "dialog"];
  const draftKey = (field) => {
    if (!field.id || !field.form) return null;
    const asked = new URLSearchParams(location.search);
    const about = field.form.dataset.draft || field.form.querySelector("input[name=session]")?.value || "";
    const chosen = CHOOSE.map((name) => asked.get(name) || "").join("&");
    return "draft:" + field.form.getAttribute("action") + "?" + about + "&" + chosen + "#" + field.id;
  };
  const keepsDraft = (field) => isField(field) && field.form?.method === "post" && ["TEXTAREA", "INPUT"].includes(field.nodeName) && !["password", "checkbox", "file"].includes(field.type);
  const seenOf = (form) => form?.querySelector("input[name=seen]");
  const freshOf = (form) => form?.querySelector("[data-fresh]");
  const freshen = (form) => {
    form.tried = undefined;
    const fresh = freshOf(form);
    if (fresh) fresh.value = crypto.randomUUID?.() || Date.now() + "-" + Math.random();
  };
  // With a draft goes how that stood which it changes, so that a change of somebody else is noticed after a reload, too.
  const saveDraft = (field) => {
    const key = keepsDraft(field) && draftKey(field);
    if (!key) return;
    try {
      sessionStorage.removeItem(key);
      if (field.value && field.value !== field.defaultValue) sessionStorage.setItem(key, JSON.stringify([field.value, seenOf(field.form)?.value, field.form.tried === field.value ? freshOf(field.form)?.value : undefined]));
    } catch {
      // All of it or nothing: half a text would pass for the whole one.
      say(field.form, body.dataset.unkept);
    }
  };
  const restoreDrafts = (within = document) => {
    for (const field of all("input, textarea", within)) {
      const key = keepsDraft(field) && draftKey(field);
      let kept = null;
      try { kept = key && JSON.parse(sessionStorage.getItem(key)); } catch { continue; }
      if (!kept?.[0] || isDirty(field)) continue;
      field.value = kept[0];
      const seen = seenOf(field.form);
      if (seen && kept[1] != null && !field.form.refused) seen.value = kept[1];
      const fresh = freshOf(field.form);
      if (fresh && kept[2]) { fresh.value = kept[2]; field.form.tried = kept[0]; }
    }
  };
  const dropDrafts = (form) => {
    for (const field of all("input, textarea", form)) {
      const key = draftKey(field);
      try { if (key) sessionStorage.removeItem(key); } catch { return; }
    }
  };

  // Morphing: what is there becomes what was fetched, with as little change as can be.
  const keyOf = (node) => node.nodeType === 1 ? node.getAttribute("data-key") || node.id || null : null;
  const morph = (have, want) => {
    if (have.nodeType !== want.nodeType || have.nodeName !== want.nodeName) { have.replaceWith(want); return; }
    if (have.nodeType !== 1) { if (have.nodeValue !== want.nodeValue) have.nodeValue = want.nodeValue; return; }
    if (have.nodeName === "TIME" && have.getAttribute("datetime") === want.getAttribute("datetime")) return;
    if (have.hasAttribute("data-keep") && !have.parentNode.hidden) return;
    if (isField(have) && (have === document.activeElement || isDirty(have))) return;
    // The key of a message stays until the message was taken: sent again after a lost connection, it is taken once.
    if (have.hasAttribute("data-fresh")) return;
    // Who has begun to type saw it as it was then: what changed since is said when it is sent, and taken into account after that.
    if (have.name === "seen" && have.form && !have.form.refused && holdsTyped(have.form)) return;
    const stays = have.nodeName === "DETAILS" ? ["open"] : have.matches(".column, .card") ? ["class"] : have.busy ? ["aria-busy"] : [];
    for (const { name, value } of [...want.attributes]) if (!stays.includes(name) && have.getAttribute(name) !== value) have.setAttribute(name, value);
    for (const { name } of [...have.attributes]) if (!stays.includes(name) && !want.hasAttribute(name)) have.removeAttribute(name);
    if (have.matches(".said") && !want.firstChild) return;
    if (have.nodeName === "TEXTAREA") { if (have.defaultValue !== want.defaultValue) have.defaultValue = want.defaultValue; return; }
    morphChildren(have, want);
  };
  // A child is told from the others by its key; without one by what it is, and which of these.
  const named = (node) => {
    const many = {};
    return [...node.childNodes].map((child) => [child, keyOf(child) || " " + child.nodeName + (many[child.nodeName] = (many[child.nodeName] || 0) + 1)]);
  };
  const morphChildren = (have, want) => {
    const wants = named(want), wanted = new Set(wants.map(([, name]) => name));
    const known = new Map(), left = new Set();
    // What goes is gone before anything is put in its place: whatever is moved within a page loses the focus.
    for (const [child, name] of named(have)) {
      if (wanted.delete(name)) { known.set(name, child); continue; }
      drop(child);
      left.add(child);
    }
    let at = have.firstChild;
    for (const [next, name] of wants) {
      while (left.has(at)) at = at.nextSibling;
      const child = known.get(name);
      known.delete(name);
      if (!child) { have.insertBefore(next, at); continue; }
      // Where the order is another, the others go around whatever has the focus.
      if (child !== at && child.contains(document.activeElement)) {
        const behind = child.nextSibling;
        while (at !== child) { const following = at.nextSibling; have.insertBefore(at, behind); at = following; }
      }
      if (child === at) at = at.nextSibling; else have.insertBefore(child, at);
      morph(child, next);
    }
  };
  // What holds something that was typed stays, and says that it is over.
  const drop = (node) => {
    if (!holdsTyped(node)) { node.remove(); return; }
    if (node.hasAttribute("data-gone")) return;
    node.setAttribute("data-gone", "");
    const said = document.createElement("p");
    said.className = "notice";
    said.setAttribute("role", "status");
    said.textContent = body.dataset.gone;
    node.prepend(said);
    for (const button of all("button", node)) button.disabled = true;
  };

  // Fetching what is stale.
  const stale = new Set();
  const tags = new Map();
  // Who waits longer for an answer would wait for ever, and with it everything that is stale by then.
  const FETCH_MS = 15000;
  let last = 0, timer = 0, fetching = false;
  const fragments = () => all("[data-live]").filter((one) => one.id);
  const markStale = (topics) => {
    for (const one of fragments()) {
      const own = one.dataset.live.split(" ");
      if (!topics || own.some((topic) => topics.includes(topic))) stale.add(one.id);
    }
    plan();
  };
  const plan = () => {
    if (timer || fetching || !stale.size || document.hidden) return;
    timer = setTimeout(refresh, Math.max(0, last + ROUND_MS - Date.now()));
  };
  // In a moment, so that what does not answer is not asked without end.
  const again = (ids) => {
    ids.forEach((id) => stale.add(id));
    last = Date.now() + 1000;
  };
  const refresh = async () => {
    timer = 0;
    const ids = [...stale].sort();
    stale.clear();
    fetching = true;
    last = Date.now();
    const name = ids.join(",");
    try {
      const headers = { "Chela-Fragments": name };
      if (tags.has(name)) headers["If-None-Match"] = tags.get(name);
      const answer = await fetch(location.href, { headers, cache: "no-store", redirect: "manual", signal: AbortSignal.timeout(FETCH_MS) });
      if (answer.type === "opaqueredirect" || answer.status === 401) { signedOut(); return; }
      if (answer.status === 200) {
        const text = await answer.text();
        // What other sets were known to be may be older than this by now.
        tags.clear();
        if (answer.headers.has("ETag")) tags.set(name, answer.headers.get("ETag"));
        take(text);
        wrong("");
      } else if (answer.status === 304) {
        wrong("");
      } else if (answer.status === 404) {
        wrong(body.dataset.vanished);
      } else {
        if (answer.status !== 429) wrong(body.dataset.unfetched);
        again(ids);
      }
    } catch {
      // Where the socket is lost as well, it tells when there is a connection again, and then everything is stale.
      if (socket?.readyState === 1) { wrong(body.dataset.unfetched); again(ids); }
    } finally {
      fetching = false;
      plan();
    }
  };
  const wrong = (text) => { if (!expired && socket?.readyState === 1) banner(text); };
  const nearEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 160;
  const take = (text) => {
    const follow = by("bubbles") && nearEnd();
    const fresh = new DOMParser().parseFromString("<!doctype html><body>" + text, "text/html");
    for (const want of [...fresh.body.children]) {
      const have = want.id && by(want.id);
      if (have) { morph(have, want); tellTimes(have); restoreDrafts(have); }
    }
    closeIfOver();
    refocus();
    if (follow) scrollTo(0, document.documentElement.scrollHeight);
  };

  // The socket.
  let wait = 250, socket = null, expired = false;
  const banner = (text) => { const place = by("banner"); place.hidden = !text; if (place.textContent !== text) place.textContent = text; };
  // Whoever is signed out hears nothing more; the way to the next connection finds out when somebody has signed in again.
  const signedOut = () => { expired = true; banner(body.dataset.expired); by("live").hidden = true; socket?.close(); };
  const connect = () => {
    socket = new WebSocket((location.protocol === "https:" ? "wss://" : "ws://") + location.host + "/live");
    socket.onopen = () => {
      wait = 250;
      expired = false;
      banner("");
      by("live").hidden = false;
      // Also the first time: something may have happened since the page was made, and nobody has told of it.
      tags.clear();
      markStale(null);
    };
    socket.onmessage = (event) => {
      const told = JSON.parse(event.data);
      if (told.say) told.say.forEach(saying);
      if (told.stale) markStale(told.stale);
      if (told.all) markStale(null);
    };
    socket.onclose = () => {
      by("live").hidden = true;
      if (!expired) banner(body.dataset.lost);
      setTimeout(async () => {
        const answer = await fetch("/api/health", { cache: "no-store" }).catch(() => null);
        if (answer?.status === 401) signedOut(); else if (expired) { expired = false; banner(body.dataset.lost); }
        connect();
      }, wait);
      wait = Math.min(wait * 2, 8000);
    };
  };
  const saying = ({ session, text }) => {
    const place = by("saying");
    if (!place || place.dataset.session !== session) return;
    const follow = nearEnd();
    place.hidden = false;
    place.querySelector(".raw").textContent = text;
    if (follow) scrollTo(0, document.documentElement.scrollHeight);
  };

  // Forms: sent without leaving the page. What is refused is said beside them, and what was typed stays.
  const say = (form, text, detail) => {
    const place = form.querySelector(".said") || by("board-said") || by("announce");
    place.textContent = text;
    if (!detail) return;
    const more = document.createElement("details"), word = document.createElement("summary"), told = document.createElement("span");
    [word.textContent, told.textContent, told.lang] = [body.dataset.detail, detail, "en"];
    more.open = true;
    more.append(word, told);
    place.append(more);
  };
  // A place may be written in two ways, `guard:mine` and `guard%3Amine`.
  const plain = (place) => { try { return decodeURIComponent(place); } catch { return place; } };
  // A file goes as it is, with its name beside it.
  const fileOf = (form) => form.querySelector("input[type=file]")?.files?.[0];
  const post = async (form, url, values) => {
    const fields = all("input:not([type=hidden]):not([type=file]), textarea, select", form);
    const sent = new Map(fields.map((field) => [field, field.value]));
    say(form, "");
    let answer;
    try {
      answer = await fetch(url, { method: "POST", body: values, headers: { "Chela-Script": "1" }, redirect: "manual" });
    } catch {
      say(form, body.dataset.unsent);
      return;
    }
    const told = await answer.json().catch(() => ({}));
    if (answer.type === "opaqueredirect" || answer.status === 401) { say(form, body.dataset.expired); signedOut(); return; }
    // What was refused may have been asked from an old page: all of it is fetched, whatever is thought to be known.
    form.refused = !answer.ok;
    if (!answer.ok) { say(form, told.error?.message || body.dataset.unsent, told.error?.detail); tags.clear(); markStale(null); return; }
    dropDrafts(form);
    freshen(form);
    // What was changed is what is there now; what was new leaves an empty field.
    // Whoever went on typing meanwhile keeps that.
    const typed = fields.filter((field) => field.value !== sent.get(field)).map((field) => [field, field.value]);
    for (const field of fields) if (field.defaultValue) field.defaultValue = sent.get(field);
    form.reset();
    for (const [field, value] of typed) { field.value = value; saveDraft(field); }
    const said = told.said || body.dataset.saved;
    const here = location.pathname + location.search;
    if (told.next && plain(told.next) !== plain(here)) { announceThere(said); location.assign(told.next); return; }
    announce(said);
    if (told.note) say(form, told.note);
    markStale(null);
  };
  document.addEventListener("submit", async (event) => {
    const form = event.target, button = event.submitter;
    if (form.method !== "post" || form.hasAttribute("data-plain")) return;
    event.preventDefault();
    // The same text under the same key is taken once; another text is another message.
    if (freshOf(form)) {
      const field = form.querySelector("textarea");
      if (form.tried !== undefined && form.tried !== field.value) freshen(form);
      form.tried = field.value;
      saveDraft(field);
    }
    const file = form.hasAttribute("data-upload") && fileOf(form);
    const values = file || new URLSearchParams(new FormData(form, button));
    const url = file ? form.action + "?name=" + encodeURIComponent(file.name) : button?.hasAttribute("formaction") ? button.formAction : form.action;
    if (form.busy) return;
    form.busy = true;
    form.setAttribute("aria-busy", "true");
    keepFocus();
    try { await post(form, url, values); } finally { form.busy = false; form.removeAttribute("aria-busy"); if (focused) focused.until = Date.now() + FOCUS_MS; }
  });
  // Whoever works with the keyboard stays where they were: what had the focus, or what stands in its place after the page has changed. That is
  // so until the answer is there, and a moment longer, in which the page is fetched.
  let focused = null;
  const FOCUS_MS = 2000;
  const keepFocus = () => {
    const one = document.activeElement, row = one?.closest("[data-key]");
    if (!one || one === body) return;
    focused = { one, until: Infinity, id: one.id, row: row?.dataset.key, nth: row ? all("button, a, input, summary", row).indexOf(one) : -1, value: one.value, section: one.closest("section[id]")?.id };
  };
  const refocus = () => {
    if (!focused || Date.now() > focused.until) { focused = null; return; }
    const now = document.activeElement;
    if (now && now !== body && now !== focused.one) { focused = null; return; }
    // A button may stand for something else by now.
    if (focused.one.isConnected && focused.one.checkVisibility() && focused.one.value === focused.value) { focused.one.focus(); return; }
    const row = focused.row && all("[data-key]").find((one) => one.dataset.key === focused.row);
    const within = row ? all("button, a, input, summary", row) : [];
    const next = (focused.id && by(focused.id)) || within.find((one) => one.value && one.value === focused.value) || within[Math.min(focused.nth, within.length - 1)]
      || (focused.section && by(focused.section)?.querySelector("button, input:not([type=hidden]), textarea, a")) || by("main");
    next?.focus();
  };
  document.addEventListener("input", (event) => saveDraft(event.target));
  document.addEventListener("change", (event) => { if (event.target.hasAttribute?.("data-auto")) event.target.form.requestSubmit(); });
  document.addEventListener("keydown", (event) => {
    const form = event.target.form;
    if (form && event.key === "Enter" && !event.shiftKey && !event.isComposing && event.target.nodeName === "TEXTAREA" && (form.hasAttribute("data-enter") || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      // A form may have several places to write in, each with its own buttons behind it: what is tried must not be saved.
      const own = [...form.elements], button = own.slice(own.indexOf(event.target)).find((one) => one.type === "submit");
      if (button && !button.disabled && form.reportValidity()) form.requestSubmit(button);
    }
    if (event.key === "/" && !isField(event.target) && !event.ctrlKey && !event.metaKey && by("q")) {
      event.preventDefault();
      by("q").focus();
    }
  });

  // Dialogs: the address says which is open; closing one leads back.
  const openDialog = () => {
    const dialog = by("dialog");
    if (!dialog?.open) return;
    dialog.removeAttribute("open");
    dialog.showModal();
    dialog.addEventListener("close", () => location.replace(dialog.dataset.close));
  };
  // Whoever does not want it after all leaves no draft behind, and no page of the dialog on the way back.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-forget], a[data-dismiss]");
    if (!link) return;
    if (link.hasAttribute("data-forget") && link.closest("form")) dropDrafts(link.closest("form"));
    if (link.hasAttribute("data-dismiss") && by("dialog")?.open) { event.preventDefault(); by("dialog").close(); }
  });

  // What it asks about can be done no longer, and nothing was typed that would be lost.
  const closeIfOver = () => { if (by("dialog")?.open && !by("ask").firstChild) by("dialog").close(); };

  // A menu closes when somebody goes on elsewhere.
  document.addEventListener("click", (event) => { for (const menu of all("details.look[open]")) if (!menu.contains(event.target)) menu.open = false; });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && event.target.closest?.("details.look[open]");
    if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
  });

  // The board: cards are dragged to where they may go. Tasks are opened by a double click, wherever they are.
  let moving = null;
  const targets = () => new Map((moving?.dataset.moves || "").split(" ").filter(Boolean).map((pair) => pair.split(":")));
  document.addEventListener("dragstart", (event) => {
    moving = event.target.closest?.(".card[draggable]");
    if (!moving) return;
    moving.classList.add("moving");
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", moving.dataset.key);
    const may = targets();
    for (const column of all(".column")) column.classList.toggle("may", may.has(column.dataset.column));
  });
  document.addEventListener("dragover", (event) => {
    const column = event.target.closest?.(".column.may");
    for (const one of all(".column.over")) if (one !== column) one.classList.remove("over");
    if (column) { event.preventDefault(); column.classList.add("over"); }
  });
  document.addEventListener("drop", (event) => {
    const column = event.target.closest?.(".column.may"), what = column && targets().get(column.dataset.column), card = moving;
    if (!what) return;
    event.preventDefault();
    if (["block", "complete", "cancel"].includes(what)) { location.assign(card.dataset.open + "?dialog=" + what); return; }
    const values = new URLSearchParams({ move: what, seen: card.dataset.status, back: location.pathname + location.search });
    post(by("mover"), card.dataset.open + "/move", values);
  });
  document.addEventListener("dragend", () => {
    moving?.classList.remove("moving");
    moving = null;
    for (const column of all(".column")) column.classList.remove("may", "over");
  });
  document.addEventListener("dblclick", (event) => {
    const card = event.target.closest?.("[data-open]");
    if (card && (card.nodeName === "a" || !event.target.closest("a, button, summary"))) location.assign(card.dataset.open);
  });

  // Where there is little room, the navigation shows where the reader is.
  const here = document.querySelector(".top > nav [aria-current]");
  const showHere = () => { if (here) here.parentNode.scrollLeft = here.offsetLeft - here.parentNode.offsetLeft - (here.parentNode.clientWidth - here.offsetWidth) / 2; };
  addEventListener("resize", showHere);
  showHere();

  document.addEventListener("visibilitychange", plan);
  tellTimes();
  restoreDrafts();
  openDialog();
  announceHere();
  setInterval(tellTimes, 30000);
  // What waits for the index is asked for again, since no event says when it is done.
  setInterval(() => { if (document.querySelector("[data-again]")) markStale(null); }, 1000);
  if (by("bubbles") && !location.hash && !new URLSearchParams(location.search).has("before") && document.querySelector('main[data-view="chat"]')) scrollTo(0, document.documentElement.scrollHeight);
  if (body.hasAttribute("data-signed")) connect();
})();
