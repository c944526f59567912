"""Published studies, one readable file each: `jaxcontact list` names them, `jaxcontact run NAME` makes them."""
