// Draws the diagrams of a page in the colours of its theme, and draws them again when the reader changes the theme.
(() => {
  const diagrams = [...document.querySelectorAll(".diagram")].map((place) => ({ place, text: place.innerText }));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => {
    const theme = document.body.dataset.theme;
    return theme === "dark" || (theme !== "light" && dark.matches);
  };
  let drawn;
  let number = 0;

  async function draw() {
    const theme = isDark() ? "dark" : "neutral";
    if (theme === drawn) return;
    drawn = theme;
    const themeVariables = { edgeLabelBackground: theme === "dark" ? "#131416" : "#ffffff" };
    mermaid.initialize({ startOnLoad: false, theme, themeVariables, fontFamily: "inherit", flowchart: { wrappingWidth: 320 } });
    for (const { place, text } of diagrams) {
      place.innerHTML = (await mermaid.render(`diagram-${number++}`, text)).svg;
    }
  }

  new MutationObserver(draw).observe(document.body, { attributeFilter: ["data-theme"] });
  dark.addEventListener("change", draw);
  draw();
})();
