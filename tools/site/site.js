// What scrolls inside the page can be scrolled by keys, too. https://www.w3.org/TR/WCAG22/#keyboard
addEventListener("load", () => {
  for (const each of document.querySelectorAll("pre > code, .md-typeset__scrollwrap, .md-typeset__table"))
    each.tabIndex = 0
})
