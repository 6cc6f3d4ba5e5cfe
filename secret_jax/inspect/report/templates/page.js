"use strict";
(function () {
  var branches = Array.prototype.slice.call(document.querySelectorAll("#tree details"));
  function fold(open) { branches.forEach(function (one) { one.open = open; }); }
  document.getElementById("unfold").onclick = function () { fold(true); };
  document.getElementById("fold").onclick = function () { fold(false); };

  // Paper cannot unfold.
  var before = [];
  window.addEventListener("beforeprint", function () {
    before = branches.map(function (one) { return one.open; });
    fold(true);
  });
  window.addEventListener("afterprint", function () {
    branches.forEach(function (one, i) { one.open = before[i]; });
  });

  var choice = document.getElementById("row");
  if (!choice) { return; }
  var ways = JSON.parse(document.getElementById("ways").textContent);
  ways.forEach(function (way, i) {
    var option = document.createElement("option");
    option.value = i;
    option.textContent = "row " + way.row + ": predicted " + way.predicted + ", actual " + way.actual;
    choice.appendChild(option);
  });

  function cell(line, name, text) {
    var made = line.insertCell();
    made.className = name;
    made.textContent = text;
    return made;
  }

  function show(way) {
    document.querySelectorAll("li.way").forEach(function (one) { one.classList.remove("way"); });
    var table = document.getElementById("steps");
    table.textContent = "";
    table.hidden = !way;
    if (!way) { return; }
    way.path.forEach(function (node) {
      var item = document.getElementById("n" + node);
      if (!item) { return; }
      item.classList.add("way");
      var branch = item.querySelector("details");
      if (branch) { branch.open = true; }
    });
    var largest = Math.max.apply(null, way.steps.slice(1).map(function (step) { return Math.abs(step[2]); }).concat(1e-300));
    way.steps.forEach(function (step, i) {
      var line = table.insertRow();
      cell(line, "name", step[0]);
      cell(line, "figure", (i && step[2] > 0 ? "+" : "") + step[1]);
      var bar = cell(line, "bars", "");
      if (i) {
        var length = document.createElement("span");
        length.className = step[2] < 0 ? "bar down" : "bar";
        length.style.width = 100 * Math.abs(step[2]) / largest + "%";
        bar.appendChild(length);
      }
    });
    var last = table.insertRow();
    cell(last, "name", "predicted").style.fontWeight = 600;
    cell(last, "figure", way.predicted).style.fontWeight = 600;
    cell(last, "bars", "");
  }
  choice.onchange = function () { show(ways[choice.value]); };
})();
