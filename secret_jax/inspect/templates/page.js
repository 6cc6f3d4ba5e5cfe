"use strict";
// The prediction of a row by the tree of the page: its leaf, and a number or the
// probabilities of classes. A row holds numbers and codes of categories; null is a
// missing value, or a category that was never seen.
function predict(tree, row) {
  const clip = (value, [low, high]) => Math.min(Math.max(value, low), high);
  const x = tree.columns.map((column) => {
    const [center, scale, unknown, ...ends] = column.numbers, value = row[column.from];
    if (value === null) { return unknown; }
    if (column.code !== undefined) { return Number(value === column.code); }
    return Math.fround(clip((value - center) / (scale || 1), ends));
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
    const {equations, conditions, ...below} = tree.nodes[number];
    if (equations) {
      const ends = tree.clip_leaves ? tree.ends[number] : equations.map(() => [-Infinity, Infinity]);
      scores = scores.map((score, i) => score + share * clip(total(equations[i]), ends[i]));
      return number;
    }
    const part = conditions.reduce((all, one) => all * left(one), 1);
    const first = part > 0 && leafBelow(below.left, share * part);
    const second = part < 1 && leafBelow(below.right, share * (1 - part));
    return part >= 0.5 ? first : second;
  }
  const leaf = leafBelow(0, 1);
  if (!tree.clip_leaves) { scores = scores.map((score, i) => clip(score, tree.ends[0][i])); }
  const several = scores.length > 1;
  const links = {
    identity: (score) => score,
    exponential: (score) => Math.exp(Math.min(score, tree.most.logarithm)),
    softmax: (score) => 1 / scores.reduce((sum, other) => sum + Math.exp(other - score), several ? 0 : Math.exp(-score)),
    clip: (score) => clip(score, [0, 1]),
  };
  const values = scores.map(links[tree.link]).map((one, i) => one * tree.targets[i][1] + tree.targets[i][0]);
  return {leaf, values: tree.labels.length && !several ? [1 - values[0], values[0]] : values};
}

const branches = document.querySelectorAll("#tree details");
for (const [button, open] of [["unfold", true], ["fold", false]]) {
  document.getElementById(button).onclick = () => branches.forEach((one) => { one.open = open; });
}

// Say what the tree predicts, and mark the way to the leaf, which is unfolded.
function say(tree) {
  const {leaf, values} = predict(tree, Object.fromEntries(tree.inputs.map((input) => [input.from, input.value])));
  const likeliest = [...tree.labels.keys()].sort((a, b) => values[b] - values[a]);
  const percent = (i) => tree.labels[i] + " " + (100 * values[i]).toFixed(1) + " %";
  const plain = Number(values[0].toPrecision(5)).toLocaleString("en", {maximumFractionDigits: 12});
  const [text, link] = ["predicted", "leaf"].map((id) => document.getElementById(id));
  text.textContent = tree.labels.length ? likeliest.slice(0, 4).map(percent).join(", ") : plain;
  Object.assign(link, {textContent: "[" + leaf + "]", href: "#leaf" + leaf});
  document.querySelectorAll("li.way").forEach((one) => one.classList.remove("way"));
  for (let item = document.getElementById("n" + leaf); item; item = item.parentElement.closest("li")) {
    item.classList.add("way");
    item.querySelectorAll(":scope > details").forEach((branch) => { branch.open = true; });
  }
}

// A category is chosen, a number or a date is typed; nothing typed is a missing value.
function make(tree, input) {
  const line = document.createElement("label"), unit = input.date ? 864e5 : 1; // of a day from 1970
  const box = document.createElement(input.choices ? "select" : "input");
  line.append(input.name, box);
  document.getElementById("inputs").append(line);
  if (input.choices) {
    input.choices.forEach(([words], i) => box.add(new Option(words, i)));
    box.value = input.value;
  } else {
    Object.assign(box, {type: input.date ? "date" : "number", step: input.step});
    box.valueAsNumber = unit * input.value;
  }
  box.oninput = () => {
    const typed = box.valueAsNumber / unit;
    input.value = input.choices ? input.choices[box.value][1] : Number.isNaN(typed) ? null : typed;
    say(tree);
  };
}

document.querySelectorAll("#asked").forEach((asked) => {
  const tree = JSON.parse(asked.textContent);
  tree.inputs.forEach((input) => make(tree, input));
  say(tree);
});
