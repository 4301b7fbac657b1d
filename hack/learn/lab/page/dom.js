// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

// Elements of the page.

// element creates an element with properties and children. An attribute is a property whose name has a dash, or one of a few others.
export function element(tag, properties = {}, ...children) {
  const created = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "data") Object.assign(created.dataset, value);
    else if (name in created && !name.includes("-")) created[name] = value;
    else created.setAttribute(name, value === true ? "" : value);
  }
  append(created, children);
  return created;
}

const append = (parent, children) => parent.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));

// update gives an element other children. Those that look the same stay, with the focus that they may have; so what a button does must show in it.
export function update(root, ...children) {
  const fresh = root.cloneNode(false);
  append(fresh, children);
  if (fresh.isEqualNode(root)) return;
  const focused = root.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  root.replaceChildren(...fresh.childNodes);
  if (focused) root.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

// svg creates an element of a drawing.
export function svg(tag, attributes, ...children) {
  const created = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) created.setAttribute(name, value);
  created.append(...children);
  return created;
}

export const byId = (id) => document.getElementById(id);
