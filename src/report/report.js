"use strict";
(function () {
  var all = function (selector) { return Array.prototype.slice.call(document.querySelectorAll(selector)); };
  var form = document.getElementById("filter");
  var search = document.getElementById("search");
  var host = document.getElementById("host");
  var count = document.getElementById("count");
  var boxes = all("#filter input[type=checkbox]");
  var groups = all(".group").map(function (group) {
    var title = group.querySelector("summary").textContent.toLowerCase();
    var rows = Array.prototype.slice.call(group.querySelectorAll(".row")).map(function (row) {
      return { row: row, status: row.dataset.status, host: row.dataset.host, text: null, title: title };
    });
    return { group: group, rows: rows };
  });

  function matches(one, words) {
    if (words.length === 0) { return true; }
    if (one.text === null) { one.text = one.title + " " + one.row.textContent.toLowerCase(); }
    return words.every(function (word) { return one.text.indexOf(word) >= 0; });
  }

  function apply() {
    var words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    var statuses = {};
    boxes.forEach(function (box) { statuses[box.value] = box.checked; });
    var shown = 0;
    groups.forEach(function (group) {
      var visible = 0;
      group.rows.forEach(function (one) {
        var is = statuses[one.status] && (host.value === "" || host.value === one.host) && matches(one, words);
        one.row.hidden = !is;
        visible += is ? 1 : 0;
      });
      group.group.hidden = visible === 0;
      shown += visible;
    });
    count.textContent = shown + " shown";
  }

  function reveal() {
    var id = location.hash.slice(1);
    var target = id && document.getElementById(id);
    if (!target) { return; }
    for (var at = target; at; at = at.parentElement) {
      at.hidden = false;
      if (at.tagName === "DETAILS") { at.open = true; }
    }
    target.scrollIntoView();
  }

  var timer = 0;
  search.addEventListener("input", function () { clearTimeout(timer); timer = setTimeout(apply, 150); });
  host.addEventListener("change", apply);
  boxes.forEach(function (box) { box.addEventListener("change", apply); });
  form.addEventListener("submit", function (event) { event.preventDefault(); });
  window.addEventListener("hashchange", reveal);
  form.hidden = false;
  apply();
  reveal();
})();
