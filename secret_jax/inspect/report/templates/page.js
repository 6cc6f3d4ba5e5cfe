"use strict";
// The prediction of a row by the tree of the page: its leaf, and a number or the
// probabilities of classes. A row holds numbers and codes of categories; null is a
// missing value, or a category that was never seen.
function predict(tree, row) {
  const clip = (value, range) => range ? Math.min(Math.max(value, range[0]), range[1]) : value;
  const x = tree.columns.map((column) => {
    const value = row[column.from];
    if (value === null) { return column.unknown; }
    if (column.code !== undefined) { return value === column.code ? 1 : 0; }
    return Math.fround(clip((value - column.center) / column.scale, column.range));
  });
  const total = (sum) => sum.weights.reduce((all, [i, weight]) => all + weight * x[i], sum.constant);
  // The share of the row that goes left: by a split all of it or none, by a gate a part.
  function left(condition) {
    if (condition.left) {
      const code = row[condition.from];
      return Number(code === null ? condition.unseen_left : condition.left.includes(code));
    }
    const distance = condition.threshold - Math.fround(total(condition.sum));
    if (!condition.width) { return Number(distance >= 0); }
    return 1 / (1 + Math.exp(-clip(distance / condition.width, [-tree.most.logit, tree.most.logit])));
  }
  let scores = tree.targets.map(() => 0);
  function leafBelow(number, share) {
    const node = tree.nodes[number];
    if (node.equations) {
      node.equations.forEach((sum, i) => { scores[i] += share * clip(total(sum), node.ranges && node.ranges[i]); });
      return number;
    }
    const part = node.conditions.reduce((all, one) => all * left(one), 1);
    const first = part > 0 && leafBelow(node.left, share * part);
    const second = part < 1 && leafBelow(node.right, share * (1 - part));
    return part >= 0.5 ? first : second;
  }
  const leaf = leafBelow(0, 1);
  scores = scores.map((score, i) => clip(score, tree.ranges && tree.ranges[i]));
  const several = scores.length > 1;
  if (tree.link === "exponential") { scores = scores.map((score) => Math.exp(Math.min(score, tree.most.logarithm))); }
  if (tree.link === "clip") { scores = scores.map((score) => clip(score, [0, 1])); }
  if (tree.link === "softmax") {
    const odds = (several ? scores : [0, scores[0]]).map((score, i, all) => Math.exp(score - Math.max(...all)));
    scores = odds.map((one) => one / odds.reduce((a, b) => a + b)).slice(several ? 0 : 1);
  }
  scores = scores.map((score, i) => score * tree.targets[i][1] + tree.targets[i][0]);
  return {leaf, values: tree.labels.length && !several ? [1 - scores[0], scores[0]] : scores};
}

const branches = document.querySelectorAll("#tree details");
for (const [button, open] of [["unfold", true], ["fold", false]]) {
  document.getElementById(button).onclick = () => branches.forEach((one) => { one.open = open; });
}

// Say what the tree predicts, and mark the way to the leaf, which is unfolded.
function say(tree, marks) {
  const found = predict(tree, Object.fromEntries(tree.inputs.map((input) => [input.from, input.value])));
  const percent = (i) => tree.labels[i] + " " + (100 * found.values[i]).toFixed(1) + " %";
  const likeliest = tree.labels.map((label, i) => i).sort((a, b) => found.values[b] - found.values[a]);
  const plain = Number(found.values[0].toPrecision(5)).toLocaleString("en", {maximumFractionDigits: 12});
  const [text, link] = ["predicted", "leaf"].map((id) => document.getElementById(id));
  text.textContent = tree.labels.length ? likeliest.slice(0, 4).map(percent).join(", ") : plain;
  link.textContent = "[" + found.leaf + "]";
  link.href = "#leaf" + found.leaf;
  document.querySelectorAll("li.way").forEach((one) => one.classList.remove("way"));
  let item = marks ? document.getElementById("n" + found.leaf) : null;
  while (item) {
    item.classList.add("way");
    item.querySelectorAll(":scope > details").forEach((branch) => { branch.open = true; });
    item = item.parentElement.closest("li");
  }
}

// A number is typed or slid, a category is chosen; nothing typed is a missing value.
function make(tree, input) {
  const line = document.createElement("label"), name = document.createElement("span");
  name.textContent = input.name;
  line.append(name);
  if (input.choices) {
    const list = document.createElement("select");
    input.choices.forEach(([words], i) => list.add(new Option(words, i)));
    list.onchange = () => { input.value = input.choices[list.value][1]; say(tree, true); };
    line.append(list);
  } else {
    // A day counts from 1970, in Greenwich.
    const written = (value) => input.date ? new Date(864e5 * value).toISOString().slice(0, 10) : value;
    const read = (text) => input.date ? Date.parse(text) / 864e5 : Number(text);
    const box = document.createElement("input"), slider = document.createElement("input");
    box.type = line.className = input.date ? "date" : "number";
    slider.type = "range";
    Object.assign(slider, {min: input.low, max: input.high, step: input.whole ? 1 : "any", value: input.value});
    Object.assign(box, {step: "any", value: written(input.value)});
    slider.oninput = () => {
      input.value = Number(Number(slider.value).toPrecision(input.whole ? 15 : 4));
      box.value = written(input.value);
      say(tree, true);
    };
    box.oninput = () => {
      input.value = box.value === "" ? null : read(box.value);
      slider.value = input.value === null ? slider.value : input.value;
      say(tree, true);
    };
    line.append(slider, box);
  }
  document.getElementById("inputs").append(line);
}

const asked = document.getElementById("asked");
if (asked) {
  const tree = JSON.parse(asked.textContent);
  tree.inputs.forEach((input) => make(tree, input));
  say(tree, false);
}
