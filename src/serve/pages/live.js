"use strict";
(function () {
  var byId = function (id) { return document.getElementById(id); };
  var table = byId("hosts");
  var address = table && table.dataset.events;
  if (!address || !window.EventSource) { return; }
  var counts = ["ok", "changed", "unreachable", "failed", "skipped"];
  var failures = byId("failures");

  function add(parent, name, text, style) {
    var made = document.createElement(name);
    if (text !== undefined) { made.textContent = text; }
    if (style) { made.className = style; }
    parent.appendChild(made);
    return made;
  }

  function link(parent, one) {
    var made = add(parent, "a");
    // Only addresses of this server are followed.
    if (one.href.indexOf("/host?name=") === 0) { made.href = one.href; }
    add(made, "bdi", one.host);
  }

  function row(host) {
    var made = byId("h" + host.id);
    if (made) { return made; }
    made = add(table, "tr");
    made.id = "h" + host.id;
    var name = add(made, "th");
    name.scope = "row";
    link(name, host);
    counts.forEach(function () { add(made, "td", "0", "number"); });
    add(add(made, "td"), "bdi");
    return made;
  }

  function showHost(host) {
    var cells = row(host).children;
    counts.forEach(function (name, index) {
      var cell = cells[index + 1];
      cell.textContent = host[name];
      cell.className = "number " + (host[name] ? name : "zero");
    });
    cells[counts.length + 1].firstChild.textContent = host.task || "";
  }

  function showFailure(one) {
    var article = add(failures, "article");
    var title = add(article, "h3");
    add(title, "span", one.status, "badge " + one.status);
    title.appendChild(document.createTextNode(" "));
    link(title, one);
    title.appendChild(document.createTextNode(": "));
    add(title, "bdi", one.task);
    if (one.place) { add(article, "code", one.place, "soft"); }
    add(article, "pre", one.message);
  }

  function more(id, count, text) {
    byId(id).hidden = !count;
    byId(id).textContent = count + text;
  }

  function status(text) { byId("status").textContent = text; }

  var source = new EventSource(address);
  source.addEventListener("open", function () {
    // The events begin with the whole state.
    failures.textContent = "";
    table.textContent = "";
    status("The page follows the run.");
  });
  source.addEventListener("state", function (event) {
    var state = JSON.parse(event.data);
    byId("play").textContent = state.play;
    byId("working").textContent = state.working;
    byId("failed").textContent = state.failed;
    state.hosts.forEach(showHost);
    state.failures.forEach(showFailure);
    more("failures-more", state.failures_left_out, " more failures are not shown; the report has them.");
    more("hosts-more", state.hosts_left_out, " more hosts are not shown; the report has them.");
  });
  source.addEventListener("end", function (event) {
    var end = JSON.parse(event.data);
    source.close();
    byId("result").textContent = end.result;
    byId("result").className = end.result;
    byId("working").textContent = "0";
    status("The run has ended: " + end.result + ".");
  });
  source.addEventListener("problem", function (event) {
    source.close();
    status("The view has ended: " + JSON.parse(event.data).sentence);
  });
  source.addEventListener("error", function () {
    status(source.readyState === EventSource.CLOSED
      ? "The view has ended, because the server refused it. Reload the page."
      : "The connection to the server is lost; the page tries again.");
  });
})();
