// The tab Causality: rabbitmq-itc's dashboard in a frame, at the address that the broker's
// configuration names. The page below it is drawn anew every few seconds; the frame is not, as it
// is put into the place only where that is empty.
(function () {
  const NAME = "causality";
  const PLACE = '<div id="itc-causality"></div>';

  function text(words) {
    const paragraph = document.createElement("p");
    paragraph.textContent = words;
    return paragraph;
  }

  function dashboard(address) {
    const frame = document.createElement("iframe");
    frame.title = "rabbitmq-itc";
    frame.src = address + "#/overview";
    frame.style.cssText = "width: 100%; height: calc(100vh - 14em); margin-top: 1em; border: 0";
    return frame;
  }

  function fill() {
    const place = document.querySelector("#main #itc-causality");
    if (!place || place.firstChild) {
      return;
    }
    const address = JSON.parse(sync_get("/itc")).url;
    place.append(
      address
        ? dashboard(address.replace(/\/*$/, "/"))
        : text("The address of rabbitmq-itc is not set: {rabbitmq_itc, [{url, \"https://…\"}]} in advanced.config.")
    );
  }

  // Since RabbitMQ 4.3 templates are functions; before that they are files (tmpl/causality.ejs).
  if (typeof COMPILED_TEMPLATES !== "undefined") {
    COMPILED_TEMPLATES[NAME] = () => PLACE;
  }
  NAVIGATION["Causality"] = ["#/causality", "management"];
  new MutationObserver(fill).observe(document.body, { childList: true, subtree: true });
  dispatcher_add(function (sammy) {
    sammy.get("#/causality", function () {
      render({}, NAME, "#/causality");
    });
  });
})();
