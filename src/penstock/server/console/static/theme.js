// Sets the theme before the page is drawn, so that it does not flash in the other one.
(() => {
  let theme = "";
  try {
    theme = localStorage.getItem("penstock.theme") ?? "";
  } catch {
    // Storage is switched off in this browser: the system's theme it is.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
