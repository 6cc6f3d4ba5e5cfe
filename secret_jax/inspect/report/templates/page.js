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

  // The nodes on the way to a leaf, and what is folded around them.
  function mark(leaf) {
    document.querySelectorAll("li.way").forEach(function (one) { one.classList.remove("way"); });
    var item = document.getElementById("n" + leaf);
    while (item) {
      item.classList.add("way");
      var branch = item.querySelector("details");
      if (branch) { branch.open = true; }
      item = item.parentElement.closest("li");
    }
  }

  var choice = document.getElementById("row");
  var inputs = [];

  function short(value) { return Number(value.toPrecision(5)).toLocaleString("en", {maximumFractionDigits: 12}); }
  function percent(share) { return (100 * share).toFixed(1) + " %"; }

  // What the program of the page says of the values of the inputs.
  function say() {
    var row = {}, said = document.getElementById("answer");
    inputs.forEach(function (input) { row[input.name] = input.value; });
    var leaf = leaf_of(row), text;
    if (labels.length) {
      var chances = Array.from(predict_proba(row).values());
      var order = labels.map(function (label, i) { return i; });
      order.sort(function (a, b) { return chances[b] - chances[a]; });
      text = order.slice(0, 4).map(function (i) { return labels[i] + " " + percent(chances[i]); }).join(", ");
    } else {
      text = short(predict(row));
    }
    said.innerHTML = "predicted <b></b>, leaf <a></a>";
    said.querySelector("b").textContent = text;
    said.querySelector("a").textContent = "[" + leaf + "]";
    said.querySelector("a").href = "#leaf" + leaf;
    return leaf;
  }

  function change() {
    if (choice) { choice.value = ""; document.getElementById("steps").hidden = true; }
    mark(say());
  }

  // A number is typed or slid, a category is chosen; nothing typed is a missing value.
  function make(input) {
    var line = document.createElement("label"), name = document.createElement("span");
    name.textContent = input.name;
    line.appendChild(name);
    if (input.choices) {
      var list = document.createElement("select");
      input.choices.forEach(function (each, i) { list.add(new Option(each[0], i)); });
      line.appendChild(list);
      list.onchange = function () { input.value = input.choices[list.value][1]; change(); };
      input.show = function () {
        list.value = input.choices.findIndex(function (each) { return each[1] === input.value; });
      };
    } else {
      var box = document.createElement("input"), slider = document.createElement("input");
      box.type = line.className = input.date ? "date" : "number";
      box.step = "any";
      // A day counts from 1970, in Greenwich.
      var write = function (value) {
        if (value === null) { return ""; }
        return input.date ? new Date(864e5 * value).toISOString().slice(0, 10) : value;
      };
      var read = function (text) { return input.date ? Date.parse(text) / 864e5 : Number(text); };
      slider.type = "range";
      slider.min = input.low;
      slider.max = input.high;
      slider.step = input.step;
      line.appendChild(slider);
      line.appendChild(box);
      slider.oninput = function () {
        input.value = Number(slider.value);
        box.value = write(input.value);
        change();
      };
      box.oninput = function () {
        input.value = box.value === "" ? null : read(box.value);
        if (input.value !== null) { slider.value = input.value; }
        change();
      };
      input.show = function () {
        box.value = write(input.value);
        slider.value = input.value === null ? input.low : input.value;
      };
    }
    input.show();
    document.getElementById("inputs").appendChild(line);
  }

  var asked = document.getElementById("asked");
  if (asked) {
    asked = JSON.parse(asked.textContent);
    var labels = asked.labels;
    inputs = asked.inputs;
    inputs.forEach(make);
    say();
  }

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
    var table = document.getElementById("steps");
    table.textContent = "";
    table.hidden = !way;
    if (!way) { mark(-1); return; }
    mark(way.path[way.path.length - 1]);
    inputs.forEach(function (input, i) { input.value = way.values[i]; input.show(); });
    if (asked) { say(); }
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
